#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "training.h"

// Writes `bytes` to the file `path`, so that at any moment, also when this process is killed, the file has either all
// that it had before, or all of `bytes`.
inline void write_whole(const std::filesystem::path& path, const std::string& bytes) {
  (void)path, (void)bytes;
  throw course::NotWritten();  // your code
}

// All that `training` needs to go on as if it had never stopped, as bytes; and back into a new Training.
inline std::string to_bytes(const course::Training& training) {
  (void)training;
  throw course::NotWritten();  // your code
}

inline void from_bytes(const std::string& bytes, course::Training& training) {
  (void)bytes, (void)training;
  throw course::NotWritten();  // your code
}
