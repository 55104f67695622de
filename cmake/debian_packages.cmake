# What `make deb` makes of a build: two Debian packages.
#
#   starling           the programs and the named systems; runs wherever its libraries are, which dpkg-shlibdeps finds out
#   libstarling-dev    the libraries (static), headers and the CMake package, for training loops of one's own
#
# Python's package is no part of them: it goes with the torch that a user's Python has, so it is a wheel.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME starling)
set(CPACK_PACKAGE_CONTACT "Starling's authors <nobody@example.org>")  # who packages it for others: cpack -D CPACK_PACKAGE_CONTACT=...
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_SOURCE_DIR}/build/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL programs development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME starling)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION
"Trains neural networks on several machines on ordinary Ethernet: pair-wise
averaging, all-reduce, parameter servers and the other systems of the
literature, by name, with every byte accounted for.")
# What the programs look for while they run: a BLAS that keeps to its threads, a font for plots, and tc for labs.
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "libopenblas0-openmp, fonts-dejavu-core, iproute2")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libstarling-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"Static libraries, headers and a CMake package, with which a training loop of
one's own takes part in a job that the programs of starling start.")
# What its CMake package asks for; static libraries need those of others, too.
set(libraries libasio-dev libfmt-dev libspdlog-dev libhwy-dev libtomlplusplus-dev libssl-dev nlohmann-json3-dev libzstd-dev)
if(STARLING_TORCH)
  list(APPEND libraries libtorch-dev)
endif()
if(IPSEC_MB AND IPSEC_MB_INCLUDE)
  list(APPEND libraries libipsec-mb-dev)
endif()
if(STARLING_OPEN_MPI)
  list(APPEND libraries libopenmpi-dev)
elseif(MPI_CXX_FOUND)
  list(APPEND libraries libmpich-dev)
endif()
list(JOIN libraries ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
# Programs of two versions do not join one job.
string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", starling (= ${PROJECT_VERSION})")

# What Debian asks of every package: who may copy it, and what has changed.
find_program(GZIP gzip)
if(GZIP)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/CHANGELOG.md)
  execute_process(COMMAND ${GZIP} -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md OUTPUT_FILE ${CMAKE_BINARY_DIR}/changelog.gz)
  foreach(component programs development)
    string(TOUPPER ${component} upper)
    set(documents ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    install(FILES cmake/copyright ${CMAKE_BINARY_DIR}/changelog.gz DESTINATION ${documents} COMPONENT ${component})
  endforeach()
endif()

include(CPack)
