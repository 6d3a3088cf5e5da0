// Tests of what annexes add (third_party/annexes.txt) are skipped where a build leaves these out.
#pragma once

#include <gtest/gtest.h>

#define SKIP_WITHOUT_ANNEX(list) \
  if ((list).entries().empty()) GTEST_SKIP() << "this build leaves out the annex that fills " #list
