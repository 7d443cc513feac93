# Writes the names of the libraries that LIBRARY needs, and the libraries that these need, into the file RECORD, but for those that TORCH
# needs too: the loader has found these once torch is imported.
function(names_of result library)
  file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${library}
    RESOLVED_DEPENDENCIES_VAR resolved UNRESOLVED_DEPENDENCIES_VAR unresolved CONFLICTING_DEPENDENCIES_PREFIX conflicting)
  set(names "")
  foreach(file IN LISTS resolved unresolved conflicting_FILENAMES)
    get_filename_component(name ${file} NAME)
    list(APPEND names ${name})
  endforeach()
  set(${result} ${names} PARENT_SCOPE)
endfunction()

names_of(needed ${LIBRARY})
names_of(of_torch ${TORCH})
get_filename_component(torch ${TORCH} NAME)
list(REMOVE_ITEM needed ${torch} ${of_torch})
list(REMOVE_DUPLICATES needed)
list(JOIN needed "\n" text)
file(WRITE ${RECORD} "${text}\n")
