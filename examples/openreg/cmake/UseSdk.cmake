# use_sdk: finds the SDK's library and makes it the target sdk::runtime. cmake/DeviceLibrary.cmake calls it in one of these ways:
#
#   use_sdk(LIBRARY mychip HEADER mychip.h)          # users install the SDK, in the same folder as on this machine
#   use_sdk(LIBRARY mychip HEADER mychip.h SHIPPED)  # the wheel holds the library and the header
#
# MYCHIP_HOME in the environment or CMAKE_PREFIX_PATH leads to the SDK, which has the library in lib/ or lib64/ and the header in include/.
#
# Without SHIPPED, the package's run path gets the library's folder, so that the loader finds the library there without LD_LIBRARY_PATH.
# LD_LIBRARY_PATH comes first. Folders that every program is linked from, such as /usr/lib, are not added.
function(use_sdk)
  cmake_parse_arguments(PARSE_ARGV 0 arg "SHIPPED" "LIBRARY;HEADER" "")
  if(NOT arg_LIBRARY OR NOT arg_HEADER OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "use_sdk takes LIBRARY <name>, HEADER <file> and, if the wheel holds the library, SHIPPED.")
  endif()
  string(TOUPPER "${arg_LIBRARY}_HOME" home)
  find_path(SDK_INCLUDE_DIR ${arg_HEADER} HINTS ENV ${home} PATH_SUFFIXES include REQUIRED)
  find_library(SDK_LIBRARY ${arg_LIBRARY} HINTS ENV ${home} PATH_SUFFIXES lib lib64 REQUIRED)

  add_library(sdk SHARED IMPORTED)
  add_library(sdk::runtime ALIAS sdk)
  set_target_properties(sdk PROPERTIES IMPORTED_LOCATION ${SDK_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${SDK_INCLUDE_DIR})

  # The name by which the loader looks for the library, if the library has one; else the linker would write down its whole path.
  set(soname "")
  if(CMAKE_OBJDUMP AND NOT APPLE AND NOT WIN32)
    execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${SDK_LIBRARY} OUTPUT_VARIABLE headers ERROR_QUIET)
    if(headers MATCHES "SONAME +([^ \n]+)")
      set(soname ${CMAKE_MATCH_1})
    else()
      set_target_properties(sdk PROPERTIES IMPORTED_NO_SONAME ON)
    endif()
  endif()

  get_filename_component(folder ${SDK_LIBRARY} DIRECTORY)
  if(arg_SHIPPED)
    set(destination ${PROJECT_NAME}/lib)
    file(REAL_PATH ${SDK_LIBRARY} file)
    # Extensions are linked with the name without a version, and the loader looks for the one in the library.
    set(names ${CMAKE_SHARED_LIBRARY_PREFIX}${arg_LIBRARY}${CMAKE_SHARED_LIBRARY_SUFFIX} ${soname})
    list(REMOVE_DUPLICATES names)
    foreach(name IN LISTS names)
      install(PROGRAMS ${file} DESTINATION ${destination} RENAME ${name})
    endforeach()
    get_filename_component(header_folder ${arg_HEADER} DIRECTORY)
    install(FILES ${SDK_INCLUDE_DIR}/${arg_HEADER} DESTINATION ${PROJECT_NAME}/include/${header_folder})
    set(sdk_in_wheel ${arg_LIBRARY} PARENT_SCOPE)
  else()
    set(sdk_in_wheel "" PARENT_SCOPE)
    if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
      set(sdk_run_path ${folder} PARENT_SCOPE)
    endif()
  endif()
endfunction()
