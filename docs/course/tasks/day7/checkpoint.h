#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "training.h"

// Writes `bytes` to the file `path`. At any moment, even if this process is killed, the file holds either all of its
// old contents or all of `bytes`.
inline void write_whole(const std::filesystem::path& path, const std::string& bytes) {
  (void)path, (void)bytes;
  throw course::NotWritten();  // your code
}

// Returns as bytes all that `training` needs to continue as if it had never stopped. from_bytes() puts them into a new
// Training.
inline std::string to_bytes(const course::Training& training) {
  (void)training;
  throw course::NotWritten();  // your code
}

inline void from_bytes(const std::string& bytes, course::Training& training) {
  (void)bytes, (void)training;
  throw course::NotWritten();  // your code
}
