# What `cmake --install` puts where: headers, libraries, the CMake package, the pkg-config files, the perf binaries.
# tests/install tries it all from a scratch prefix. The small tools of the tree itself are built here too.
include(CMakePackageConfigHelpers)

target_link_options(twohop PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
set_property(TARGET twohop APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)

# Prints the README's table of variables (scripts/update-readme, scripts/lint).
add_executable(twohop_options_doc EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/scripts/options_doc.cpp)
target_link_libraries(twohop_options_doc PRIVATE twohop_base spdlog::spdlog PkgConfig::sodium)
set_target_properties(twohop_options_doc PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/twohop)

install(FILES ${PROJECT_SOURCE_DIR}/include/twohop/twohop.h ${PROJECT_SOURCE_DIR}/include/twohop/twohop.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/twohop)
install(TARGETS twohop EXPORT twohopTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT twohopTargets NAMESPACE twohop:: DESTINATION ${package_dir})

# The MPI entry is a library of its own, so that the core asks nobody for MPI.
set(TWOHOP_HAS_MPI FALSE)
if(TARGET twohop_mpi)
  set(TWOHOP_HAS_MPI TRUE)
  set_target_properties(twohop_mpi PROPERTIES EXPORT_NAME mpi INSTALL_RPATH "$ORIGIN")
  install(FILES ${PROJECT_SOURCE_DIR}/include/twohop/twohop_mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/twohop)
  install(TARGETS twohop_mpi EXPORT twohopMpiTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT twohopMpiTargets NAMESPACE twohop:: DESTINATION ${package_dir})
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/twohopConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/twohopConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/twohopConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/twohopConfig.cmake ${PROJECT_BINARY_DIR}/twohopConfigVersion.cmake
        DESTINATION ${package_dir})

# In a folder of its own, where nobody takes it for the system's libibverbs; the loader of TWOHOP_NET=softnic looks there.
if(TARGET softnic)
  install(TARGETS softnic LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/twohop/softnic)
endif()

# Relative to the .pc file itself, so that an installed tree can be moved.
file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" PC_PREFIX "${PC_PREFIX}")
foreach(library twohop twohop_mpi)
  if(TARGET ${library})
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${library}.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  endif()
endforeach()

if(TARGET twohop_tool)
  install(TARGETS twohop_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(program allreduce_perf reduce_perf verbs_perf)
  if(TARGET ${program})
    file(RELATIVE_PATH to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/${to_lib}")
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
