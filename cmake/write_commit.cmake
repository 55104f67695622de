# Writes the commit that the source is of into a header, if it is another than the one that stands there: "67986cd", with
# "-dirty" behind it where files differ, and nothing where there is no repository, as in a source archive.
#
#   cmake -D SOURCE=... -D HEADER=... -P write_commit.cmake
cmake_policy(VERSION 3.22)
set(commit "")
if(EXISTS ${SOURCE}/.git)  # else git would look in the folders above, which may be another project's
  execute_process(COMMAND git -C ${SOURCE} describe --always --abbrev=10 --exclude=* --dirty
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(text "#define STARLING_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${HEADER} "${text}")
endif()
