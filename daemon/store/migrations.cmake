# Writes OUTPUT, the C++ file that holds every schema/NNNN_*.sql in order. Called when one of them changes.
file(GLOB files ${SCHEMA_DIR}/[0-9][0-9][0-9][0-9]_*.sql)
list(SORT files)
set(entries)
set(expected 1)
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  string(SUBSTRING ${name} 0 4 number)
  math(EXPR number "1${number} - 10000")
  if(NOT number EQUAL expected)
    message(FATAL_ERROR "${name}: migrations are numbered from 0001 without a gap; expected ${expected}")
  endif()
  math(EXPR expected "${expected} + 1")
  file(READ ${file} sql)
  string(APPEND entries "    R\"migration(${sql})migration\",\n")
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "daemon/store/schema.h"

namespace laggard::store {

std::span<const std::string_view> migrations() {
  static constexpr std::string_view kMigrations[] = {
@entries@  };
  return kMigrations;
}

}  // namespace laggard::store
]])
