# Which folder under src/ may include which. Their order, and what each uses, stand once, in src/CMakeLists.txt:
#
#   starling_folder(NAME USES folder... ...)
#
# A folder may use those above it. Its files may include what it uses, and what those use in turn: so net/ and sim/, of
# which neither uses the other, never meet.
#
#   cmake -P check_includes.cmake SOURCE_FOLDER
cmake_minimum_required(VERSION 3.22)

# Sets `folders`, in their order, and in may_include_NAME what each may include.
macro(read_folders source)
  file(READ ${source}/CMakeLists.txt text)
  string(REGEX REPLACE "#[^\n]*" "" text "${text}")
  string(REGEX MATCHALL "starling_folder\\([^)]*" calls "${text}")
  set(folders "")
  foreach(call IN LISTS calls)
    string(REGEX MATCHALL "[^ \n(]+" words "${call}")
    list(GET words 1 folder)
    set(may_include_${folder} ${folder})
    set(key "")
    foreach(word IN LISTS words)
      if(word MATCHES "^[A-Z_]+$")
        set(key ${word})
      elseif(key STREQUAL "USES")
        if(NOT word IN_LIST folders)
          message(FATAL_ERROR " ${source}/CMakeLists.txt: ${folder}/ uses ${word}/, which does not stand above it")
        endif()
        list(APPEND may_include_${folder} ${may_include_${word}})
      endif()
    endforeach()
    list(APPEND folders ${folder})
  endforeach()
endmacro()

# Fails with a line for each include that must not be, as a compiler writes it, so that editors find the place.
function(check_includes source)
  read_folders(${source})
  set(faults "")
  foreach(folder IN LISTS folders)
    file(GLOB files ${source}/${folder}/*.h ${source}/${folder}/*.cc)
    foreach(file IN LISTS files)
      file(READ ${file} text)
      string(PREPEND text "\n")
      string(REGEX MATCHALL "\n#include \"[a-z]+/[^\"]*" includes "${text}")
      foreach(include IN LISTS includes)
        string(REGEX REPLACE ".*\"([a-z]+)/.*" "\\1" included "${include}")
        if(NOT included IN_LIST may_include_${folder})
          string(FIND "${text}" "${include}" at)
          string(SUBSTRING "${text}" 0 ${at} before)
          string(REGEX MATCHALL "\n" line_ends "${before}\n")
          list(LENGTH line_ends line)
          string(APPEND faults " ${file}:${line}: ${folder}/ must not include ${included}/\n")
        endif()
      endforeach()
    endforeach()
  endforeach()
  if(faults)
    message(FATAL_ERROR "${faults}")  # a line that begins with a blank is not broken
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  check_includes(${CMAKE_ARGV3})
endif()
