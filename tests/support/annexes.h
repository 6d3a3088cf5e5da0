// Skips tests of annexes (third_party/annexes.txt) in builds without annexes.
#pragma once

#include <gtest/gtest.h>

#define SKIP_WITHOUT_ANNEX(list) \
  if ((list).entries().empty()) GTEST_SKIP() << "this build leaves out the annex that fills " #list
