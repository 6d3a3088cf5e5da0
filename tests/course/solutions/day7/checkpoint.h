#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "training.h"

inline void write_whole(const std::filesystem::path& path, const std::string& bytes) {
  const std::string draft = path.string() + ".draft";
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0) throw std::runtime_error(draft + ": can't be written");
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t written = write(file, bytes.data() + at, bytes.size() - at);
    if (written <= 0) throw std::runtime_error(draft + ": can't be written");
    at += written;
  }
  if (fsync(file) != 0 || close(file) != 0) throw std::runtime_error(draft + ": can't be written");
  std::filesystem::rename(draft, path);
}

inline std::string to_bytes(const course::Training& training) {
  std::ostringstream out;
  out << std::hexfloat << training.position << ' ' << training.step << ' ' << training.order.size() << ' ';
  for (const int sample : training.order) out << sample << ' ';
  out << training.random << ' ';
  std::string text = out.str();
  for (const auto* arrays : {&training.model.parameters, &training.momentum})
    for (const auto& array : *arrays)
      text.append(reinterpret_cast<const char*>(array.data()), array.size() * sizeof(float));
  return text;
}

inline void from_bytes(const std::string& bytes, course::Training& training) {
  std::istringstream in(bytes);
  std::size_t size = 0;
  in >> training.position >> training.step >> size;
  training.order.resize(size);
  for (int& sample : training.order) in >> sample;
  in >> training.random;
  in.ignore(1);
  for (auto* arrays : {&training.model.parameters, &training.momentum})
    for (auto& array : *arrays) in.read(reinterpret_cast<char*>(array.data()), array.size() * sizeof(float));
}
