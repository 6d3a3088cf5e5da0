# cmake -P versions_test.cmake: tests how third_party/TandemVersions.cmake reads the versions in headers.
include(${CMAKE_CURRENT_LIST_DIR}/../../third_party/TandemVersions.cmake)

set(folder $ENV{TMPDIR})
if(NOT folder)
  set(folder /tmp)
endif()
string(RANDOM LENGTH 12 name)
set(header ${folder}/tandem-${name}.h)

# This part runs in a separate process, because an error ends it.
if(DEFINED oldest)
  tandem_oldest(example ${oldest} ${given} ${macros})
  return()
endif()

function(expect code words)
  execute_process(COMMAND ${CMAKE_COMMAND} ${ARGN} -Dgiven=${header} -P ${CMAKE_CURRENT_LIST_FILE}
                  RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(NOT result EQUAL code OR NOT said MATCHES "${words}")
    message(SEND_ERROR "${ARGN}: ended with ${result} and said: ${said}")
  endif()
endfunction()

file(WRITE ${header} "#define X_MAJOR 2\n#  define X_MINOR 5 // a comment\n"
                     "#define X_TEXT \"3.0.19\"\n#define X_LONG 90100\n")
expect(0 "^ ?$" -Doldest=2.5 "-Dmacros=X_MAJOR\;X_MINOR")
expect(1 "example 2.5 is older than 2.6, .*-DTANDEM_UNTRIED=ON" -Doldest=2.6 "-Dmacros=X_MAJOR\;X_MINOR")
expect(0 "example 2.5 is older than 2.6" -Doldest=2.6 -DTANDEM_UNTRIED=ON "-Dmacros=X_MAJOR\;X_MINOR")
expect(0 "^ ?$" -Doldest=3.0.2 -Dmacros=X_TEXT)
expect(1 "example 3.0.19 is older than 3.1" -Doldest=3.1 -Dmacros=X_TEXT)
expect(0 "^ ?$" -Doldest=9.1.0 -Dmacros=X_LONG)
expect(1 "example 9.1.0 is older than 10" -Doldest=10 -Dmacros=X_LONG)
expect(0 "does not say which version" -Doldest=1 -Dmacros=X_NONE)
file(REMOVE ${header})
