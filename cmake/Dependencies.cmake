# Debian 12's packages; deploy/packages.txt is the one list of their names.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(Boost 1.81 REQUIRED)  # headers only: Asio and Beast
find_package(OpenSSL 3.0 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(spdlog REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
if(LAGGARD_FUZZ)
  # From its headers alone, so that the fuzzers see into it; without its assertions, as Debian builds it.
  set_target_properties(tomlplusplus::tomlplusplus PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS "TOML_HEADER_ONLY=1;NDEBUG" INTERFACE_LINK_LIBRARIES ""
    INTERFACE_COMPILE_OPTIONS -fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/tests/fuzz/known.ignore)
endif()
