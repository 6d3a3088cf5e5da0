#include <tandem/data/idx.h>

#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/input_file.h>

#define ZLIB_CONST  // makes zlib take const input
#include <zlib.h>

#include <algorithm>
#include <vector>

namespace tandem::data {
namespace {

constexpr int unsigned_byte = 8;  // the type code of unsigned bytes

// Reads the bytes of a file, and decompresses them if the file is gzip.
class Source : public InputFile {
 public:
  explicit Source(const std::filesystem::path& path) : InputFile(path, "IDX file"), buffer_(1 << 16) {
    fill();
    is_gzip_ = available_ >= 2 && at_[0] == 0x1f && at_[1] == 0x8b;
    if (is_gzip_) {
      // Adding 16 selects the gzip format. zlib then checks the length and the CRC.
      check(inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK, "cannot be decompressed: zlib failed (out of memory?)");
    }
  }
  ~Source() {
    if (is_gzip_) inflateEnd(&stream_);
  }

  // The largest number of bytes that the file can contain: its size, or the most that deflate can expand it to.
  std::uint64_t most_bytes() const { return is_gzip_ ? size() * 1032 : size(); }

  // Reads up to `bytes` bytes. Returns fewer only at the end of the file.
  std::size_t read(unsigned char* destination, std::size_t bytes) {
    std::size_t done = 0;
    while (done < bytes) {
      const std::size_t got =
          is_gzip_ ? inflate_some(destination + done, bytes - done) : copy_some(destination + done, bytes - done);
      if (got == 0) break;
      done += got;
    }
    return done;
  }

 private:
  std::vector<unsigned char> buffer_;
  std::uint64_t filled_ = 0;  // bytes of the file that have been in the buffer so far
  const unsigned char* at_ = nullptr;
  std::size_t available_ = 0;
  bool is_gzip_ = false;
  bool is_finished_ = false;
  z_stream stream_{};

  void fill() {
    available_ = std::min<std::uint64_t>(buffer_.size(), size() - filled_);
    InputFile::read(buffer_.data(), available_, filled_);
    filled_ += available_;
    at_ = buffer_.data();
  }

  std::size_t copy_some(unsigned char* destination, std::size_t bytes) {
    if (available_ == 0) fill();
    const std::size_t count = std::min(bytes, available_);
    std::copy_n(at_, count, destination);
    at_ += count;
    available_ -= count;
    return count;
  }

  std::size_t inflate_some(unsigned char* destination, std::size_t bytes) {
    constexpr std::size_t largest = 1u << 30;  // zlib counts in 32 bits
    const std::size_t wanted = std::min(bytes, largest);
    stream_.next_out = destination;
    stream_.avail_out = static_cast<uInt>(wanted);
    while (!is_finished_ && stream_.avail_out == wanted) {
      if (available_ == 0) fill();
      check(available_ > 0, "its gzip data ends early; the file is truncated: download or copy it again");
      stream_.next_in = at_;
      stream_.avail_in = static_cast<uInt>(available_);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      at_ = stream_.next_in;
      available_ = stream_.avail_in;
      check(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR, "its gzip data is corrupt (",
            stream_.msg != nullptr ? stream_.msg : "zlib gives no reason", "): download or copy it again");
      if (result == Z_STREAM_END) finish();
    }
    return wanted - stream_.avail_out;
  }

  // Called at the end of a member of the gzip file. Another member may follow (RFC 1952, 2.2), or zeros as padding.
  void finish() {
    do {
      if (available_ == 0) fill();
      const unsigned char* rest = std::find_if(at_, at_ + available_, [](unsigned char byte) { return byte != 0; });
      available_ -= static_cast<std::size_t>(rest - at_);
      at_ = rest;
    } while (available_ == 0 && filled_ < size());
    is_finished_ = available_ == 0;
    check(is_finished_ || at_[0] == 0x1f, "bytes follow the end of its gzip data; it is damaged: download or copy it ",
          "again");
    if (!is_finished_) inflateReset(&stream_);
  }
};

std::uint32_t big_endian(const unsigned char* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

}  // namespace

Array read_idx(const std::filesystem::path& path) {
  Source source(path);
  unsigned char magic[4];
  const std::size_t magic_bytes = source.read(magic, sizeof magic);
  source.check(magic_bytes == sizeof magic, "holds ", magic_bytes,
               " bytes, too few for a header; it is truncated: download or copy it again");
  source.check(magic[0] == 0 && magic[1] == 0, "begins with the bytes ", int{magic[0]}, " ", int{magic[1]},
               ", expected 0 0; it is not an IDX file: give the folder of the MNIST files");
  source.check(magic[2] == unsigned_byte, "holds numbers of type ", int{magic[2]}, ", expected ", unsigned_byte,
               " (unsigned bytes); it is not an MNIST file");
  const int ndim = magic[3];
  source.check(ndim >= 1 && ndim <= Dims::max_ndim, "has ", ndim, " dimensions, expected 1 to ", Dims::max_ndim);

  Shape shape;
  std::uint64_t expected = 1;
  for (int i = 0; i < ndim; ++i) {
    unsigned char size[4];
    const auto size_bytes = source.read(size, sizeof size);
    source.check(size_bytes == sizeof size, "ends within its header; it is truncated: download or copy it again");
    shape.push_back(big_endian(size));
    // The product is checked before it can overflow.
    expected *= big_endian(size);
    source.check(expected <= std::uint64_t{1} << 32, "announces the shape ", shape, ", more than 4 GiB; it is damaged");
  }
  source.check(expected <= source.most_bytes(), "announces the shape ", shape, " (", expected,
               " bytes), which is more than it can contain; it is truncated: download or copy it again");

  Array array = Array::empty(shape, DType::u8);
  const std::size_t found = expected == 0 ? 0 : source.read(array.data<std::uint8_t>(), expected);
  source.check(found == expected, "announces the shape ", shape, ", ", expected, " bytes, but holds only ", found,
               "; it is truncated: download or copy it again");
  unsigned char beyond;
  source.check(source.read(&beyond, 1) == 0, "holds more than the ", expected, " bytes that its shape ", shape,
               " announces; it is damaged: download or copy it again");
  return array;
}

void write_idx(const std::filesystem::path& path, const Array& array) {
  TANDEM_CHECK(array.is_contiguous() && array.dtype() == DType::u8, "IDX file ", path.string(),
               ": the array must be row-major u8, got ", array.shape(), ' ', array.dtype());
  const auto* numbers = array.data<std::uint8_t>();
  std::vector<unsigned char> header = {0, 0, unsigned_byte, static_cast<unsigned char>(array.ndim())};
  for (const auto size : array.shape()) {
    TANDEM_CHECK(size <= std::int64_t{0xffffffff}, "IDX file ", path.string(), ": a dimension of ", size,
                 " does not fit in 32 bits");
    for (const int shift : {24, 16, 8, 0}) header.push_back(static_cast<unsigned char>(size >> shift));
  }
  AtomicFile file(path);
  file.write(header.data(), header.size());
  file.write(numbers, array.bytes());
  file.commit();
}

}  // namespace tandem::data
