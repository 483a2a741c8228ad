// The server's side of TLS. Only the HTTP server's own files include this: Asio stays out of the others.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

namespace laggard::serve {

/// TLS 1.2 and newer with the certificate (and those between it and its authority) and the private key of
/// these PEM files. Throws Error when they cannot be used, or when others can read the key.
std::unique_ptr<boost::asio::ssl::context> server_tls(const std::string& certificate_file,
                                                      const std::string& key_file);

}  // namespace laggard::serve
