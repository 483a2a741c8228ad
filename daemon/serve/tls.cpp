#include "daemon/serve/tls.h"

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>

#include "daemon/base/error.h"
#include "daemon/base/private_file.h"
#include "daemon/base/secret_file.h"

namespace laggard::serve {
namespace {

using boost::asio::ssl::context;
using boost::system::error_code;

// Of TLS 1.2; those of 1.3 are all good. Forward secrecy, and no mode that has needed mending.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

}  // namespace

std::unique_ptr<context> server_tls(const std::string& certificate_file, const std::string& key_file) {
  auto tls = std::make_unique<context>(context::tls_server);
  SSL_CTX* const native = tls->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  // Renegotiation costs the server more than the client. Each connection begins anew: clients ask once.
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                  SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(native, 0);
  if (SSL_CTX_set_cipher_list(native, kCiphers) != 1)
    throw Error("this OpenSSL has none of the ciphers that the HTTP side uses");
  error_code error;
  tls->use_certificate_chain_file(certificate_file, error);
  if (error)
    throw Error("http_tls_cert: no certificate can be read from " + certificate_file + ": " +
                error.message());
  // Without this OpenSSL would ask at the terminal for the pass phrase of a key that has one.
  tls->set_password_callback([](std::size_t, context::password_purpose) { return std::string(); }, error);
  const std::string key = read_private_file(key_file, limits::kMaxSecretFileBytes, "the private key");
  tls->use_private_key(boost::asio::buffer(key), context::pem, error);
  if (error)
    throw Error("http_tls_key: the private key in " + key_file + " cannot be used: " + error.message() +
                ". It must be PEM, without a pass phrase, and belong to the certificate in " +
                certificate_file);
  return tls;
}

}  // namespace laggard::serve
