# How every target of the project is built, and the link rule:
#   base <- proto codec <- core <- {ingest, store, serve} <- executables
# A library names the layers it may use; an #include of any other layer stops the configure step, since
# the linker alone would not notice a header that needs no symbol.

add_library(laggard_options INTERFACE)
target_include_directories(laggard_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(laggard_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual
  -Wno-missing-field-initializers)  # members have defaults, and designated initialisers lean on them
if(LAGGARD_WERROR)
  target_compile_options(laggard_options INTERFACE -Werror)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A class of a .cpp file may hold types of its unnamed namespace; GCC takes the joined file for a header.
  target_compile_options(laggard_options INTERFACE -Wno-subobject-linkage)
endif()
if(LAGGARD_SANITIZE)
  add_compile_options(-fsanitize=${LAGGARD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized)  # GCC 12 sees it in std::regex, with a sanitizer only
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND LAGGARD_SANITIZE MATCHES "undefined")
    # clang 14 puts what this one checks beside each function, and then cannot assemble Beast's coroutines.
    add_compile_options(-fno-sanitize=function)
  endif()
  if(LAGGARD_SANITIZE STREQUAL "thread")
    add_compile_options(-Wno-tsan)  # Asio's fences, which GCC's ThreadSanitizer does not model
  endif()
  add_link_options(-fsanitize=${LAGGARD_SANITIZE})
endif()

# laggard_check_layers(<dir relative to the source root> LAYERS <dir>...)
# Fails when a source file below the directory includes a project header of a layer that is not listed.
function(laggard_check_layers dir)
  cmake_parse_arguments(ARG "" "" "LAYERS" ${ARGN})
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/${dir}/*.h ${PROJECT_SOURCE_DIR}/${dir}/*.cpp)
  foreach(file IN LISTS files)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${file})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${file} lines REGEX "^#include \"")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" header "${line}")
      get_filename_component(layer "${header}" DIRECTORY)
      if(NOT layer IN_LIST ARG_LAYERS AND NOT layer STREQUAL dir)
        message(FATAL_ERROR "${file} includes ${header}: ${dir} may use only ${ARG_LAYERS}")
      endif()
    endforeach()
  endforeach()
endfunction()

# laggard_library(<name> <dir> SOURCES ... LAYERS ... [LINK ...] [PRIVATE_LINK ...])
# LAYERS are the folders whose headers may be included; LINK and PRIVATE_LINK are targets.
function(laggard_library name dir)
  cmake_parse_arguments(ARG "" "" "SOURCES;LAYERS;LINK;PRIVATE_LINK" ${ARGN})
  laggard_check_layers(${dir} LAYERS ${ARG_LAYERS})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE laggard_options ${ARG_PRIVATE_LINK})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
endfunction()
