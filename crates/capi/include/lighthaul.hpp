// Lighthaul for programs in C++17: copies, files of other hosts, and streams, over lighthaul.h. The guide is docs/src/c.md.
//
// Objects own their handles: a destructor closes, and a moved object is empty. Failures are exceptions of the class
// lighthaul::Error. Threads can share objects. Objects of one client may live longer than the client.
//
// A callback may throw: its exception ends the operation, and the call that waits for the operation throws it again.

#ifndef LIGHTHAUL_HPP
#define LIGHTHAUL_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lighthaul.h"

namespace lighthaul {

// Failure: one sentence, its code, and what to do.
class Error : public std::runtime_error {
 public:
  Error(lh_code code, const std::string &message, std::string remedy)
      : std::runtime_error(message), code_(code), remedy_(std::move(remedy)) {}

  lh_code code() const noexcept { return code_; }
  const std::string &remedy() const noexcept { return remedy_; }

 private:
  lh_code code_;
  std::string remedy_;
};

namespace detail {

// Throws the latest failure of this thread.
[[noreturn]] inline void fail() {
  throw Error(lh_error_code(), lh_error_message(), lh_error_remedy());
}

inline void check(lh_code code) {
  if (code != LH_OK) fail();
}

inline const char *text(const std::string &text) {
  return text.empty() ? nullptr : text.c_str();
}

// Handle that its owner closes.
template <typename Handle, lh_code (*Close)(Handle)>
class Owned {
 public:
  Owned() noexcept = default;
  explicit Owned(Handle handle) noexcept : handle_(handle) {}
  Owned(Owned &&other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owned &operator=(Owned &&other) noexcept {
    Owned taken(std::move(other));
    std::swap(handle_, taken.handle_);
    return *this;
  }
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  ~Owned() {
    if (handle_.id != 0) Close(handle_);
  }

  Handle get() const noexcept { return handle_; }
  Handle *out() noexcept { return &handle_; }
  Handle release() noexcept { return std::exchange(handle_, Handle{}); }

 private:
  Handle handle_{};
};

// Exception of a callback, kept until a call of the program can throw it again.
class Thrown {
 public:
  template <typename Function>
  int run(Function &&function) noexcept {
    try {
      return function() ? 0 : 1;
    } catch (...) {
      std::lock_guard<std::mutex> turn(mutex_);
      if (!exception_) exception_ = std::current_exception();
      return 1;
    }
  }

  void rethrow() {
    std::lock_guard<std::mutex> turn(mutex_);
    if (exception_) std::rethrow_exception(std::exchange(exception_, nullptr));
  }

 private:
  std::mutex mutex_;
  std::exception_ptr exception_;
};

}  // namespace detail

// Settings of a client. An empty string stands for the default of the command.
struct Settings {
  std::string key, known_hosts, pin, token, statement, ssh, remote, gateway, known_paths;
  bool strict = false;
  bool install = false;
};

// Entry of a copy that failed.
struct Failure {
  std::string path;
  lh_code code;
  std::string why;
};

// Request for a copy. An empty string stands for the default of the command.
struct Copy {
  std::vector<std::string> sources;
  std::string target;
  std::string rate, limit, protocol;
  std::optional<unsigned> retries;
  bool exact = false;
  bool archive = false;
  bool checksum = false;
  bool update = false;
  bool delete_extra = false;
  bool verify_disk = false;
  bool plain = false;
  bool udp = true;
  // Called in the thread of the copy; returns false to cancel.
  std::function<bool(const lh_progress &)> progress;
};

// Running copy. The destructor cancels it, and waits for its end, except within a progress function.
class Transfer {
 public:
  Transfer() = default;
  Transfer(Transfer &&) noexcept = default;
  Transfer &operator=(Transfer &&other) noexcept {
    Transfer taken(std::move(other));
    std::swap(observer_, taken.observer_);
    std::swap(transfer_, taken.transfer_);
    return *this;
  }
  ~Transfer() {
    const lh_transfer handle = transfer_.release();
    if (handle.id != 0 && lh_transfer_close(handle) == LH_PENDING) {
      // destroyed within a progress function: the copy, which is cancelled, may still run this one
      static_cast<void>(observer_.release());
    }
  }

  // Waits for the end. Throws if the copy, its progress function or an entry failed. After LH_PARTIAL, failures()
  // returns the failed entries.
  lh_summary wait() {
    lh_summary summary{};
    finish(lh_transfer_wait(transfer_.get(), -1, &summary));
    return summary;
  }

  // Waits for the end, for a limited time. Returns nothing if the copy still runs.
  std::optional<lh_summary> wait_for(std::chrono::milliseconds limit) {
    lh_summary summary{};
    const auto most = limit.count() < 0 ? 0 : limit.count();
    const lh_code code = lh_transfer_wait(transfer_.get(), most, &summary);
    if (code == LH_PENDING) return std::nullopt;
    finish(code);
    return summary;
  }

  lh_progress progress() const {
    lh_progress progress{};
    detail::check(lh_transfer_progress(transfer_.get(), &progress));
    return progress;
  }

  void cancel() { detail::check(lh_transfer_cancel(transfer_.get())); }

  // Entries that failed. Before the end of the copy, there are none.
  std::vector<Failure> failures() const {
    std::vector<Failure> failures;
    const auto each = [](void *data, const char *path, lh_code code, const char *why) {
      try {
        static_cast<std::vector<Failure> *>(data)->push_back({path, code, why});
      } catch (...) {
        // no memory: the list is shorter
      }
    };
    detail::check(lh_transfer_failures(transfer_.get(), each, &failures));
    return failures;
  }

 private:
  friend class Client;

  struct Observer {
    std::function<bool(const lh_progress &)> function;
    detail::Thrown thrown;
  };

  void finish(lh_code code) {
    if (observer_) observer_->thrown.rethrow();
    if (code == LH_PARTIAL) throw Error(code, "some entries were not copied", "see failures()");
    detail::check(code);
  }

  std::unique_ptr<Observer> observer_;
  detail::Owned<lh_transfer, lh_transfer_close> transfer_;
};

// Item of a directory.
struct Item {
  std::string name;
  lh_item info;
};

// File of another host that is open for reading.
class Reader {
 public:
  std::uint64_t size() const {
    std::uint64_t bytes = 0;
    detail::check(lh_reader_size(reader_.get(), &bytes));
    return bytes;
  }

  // Reads into a buffer, and returns the number of bytes read. It is below `len` only at the end of the file.
  std::size_t read(std::uint64_t offset, void *buffer, std::size_t len) const {
    std::size_t got = 0;
    detail::check(lh_reader_read(reader_.get(), offset, buffer, len, &got));
    return got;
  }

  std::string read(std::uint64_t offset, std::size_t len) const {
    std::string bytes(len, '\0');
    bytes.resize(read(offset, bytes.data(), len));
    return bytes;
  }

 private:
  friend class Files;
  detail::Owned<lh_reader, lh_reader_close> reader_;
};

// File of another host that is open for writing. A new file without a commit is removed.
class Writer {
 public:
  std::uint64_t size() const {
    std::uint64_t bytes = 0;
    detail::check(lh_writer_size(writer_.get(), &bytes));
    return bytes;
  }

  void write(std::uint64_t offset, const void *bytes, std::size_t len) {
    detail::check(lh_writer_write(writer_.get(), offset, bytes, len));
  }

  void write(std::uint64_t offset, const std::string &bytes) { write(offset, bytes.data(), bytes.size()); }

  void commit() { detail::check(lh_writer_commit(writer_.get())); }

 private:
  friend class Files;
  detail::Owned<lh_writer, lh_writer_close> writer_;
};

// Files of another host.
class Files {
 public:
  lh_item stat(const std::string &path, bool follow = true) const {
    lh_item item{};
    detail::check(lh_files_stat(files_.get(), path.c_str(), follow, &item));
    return item;
  }

  std::vector<Item> list(const std::string &path) const {
    struct Taking {
      std::vector<Item> items;
      detail::Thrown thrown;
    } taking;
    const auto each = [](void *data, const lh_item *item) -> std::int32_t {
      auto &taking = *static_cast<Taking *>(data);
      return taking.thrown.run([&] {
        taking.items.push_back({item->name, *item});
        taking.items.back().info.name = nullptr;
        return true;
      });
    };
    const lh_code code = lh_files_list(files_.get(), path.c_str(), each, &taking);
    taking.thrown.rethrow();
    detail::check(code);
    return std::move(taking.items);
  }

  void make_directory(const std::string &path) { detail::check(lh_files_make_directory(files_.get(), path.c_str())); }
  void remove(const std::string &path) { detail::check(lh_files_remove(files_.get(), path.c_str())); }
  void remove_directory(const std::string &path) { detail::check(lh_files_remove_directory(files_.get(), path.c_str())); }
  void rename(const std::string &from, const std::string &to, bool replace = false) {
    detail::check(lh_files_rename(files_.get(), from.c_str(), to.c_str(), replace));
  }

  Reader open(const std::string &path) const {
    Reader reader;
    detail::check(lh_reader_open(files_.get(), path.c_str(), reader.reader_.out()));
    return reader;
  }

  Writer create(const std::string &path, bool is_new = false) {
    Writer writer;
    detail::check(lh_writer_create(files_.get(), path.c_str(), is_new, writer.writer_.out()));
    return writer;
  }

  Writer append(const std::string &path) {
    Writer writer;
    detail::check(lh_writer_append(files_.get(), path.c_str(), writer.writer_.out()));
    return writer;
  }

 private:
  friend class Client;
  detail::Owned<lh_files, lh_files_close> files_;
};

// Options of a stream: the structure of the C interface for numbers, and C++ strings for texts.
struct StreamOptions {
  std::string rate, code;
  std::chrono::microseconds linger{0}, deadline{0}, delay{0};
  std::uint64_t object_bytes = 0;
  double objects_per_second = 0;
  std::uint32_t message_bytes = 0;
  std::int32_t frames = LH_PREFIXED;
  bool drop_late = false;
  bool plain = false;
  bool udp = true;
};

// Running stream, in one direction. The destructor cancels it, and waits for its end.
class Stream {
 public:
  void send(const void *message, std::size_t len) { detail::check(lh_stream_send(stream_.get(), message, len)); }
  void send(const std::string &message) { send(message.data(), message.size()); }

  // Waits for the next message. Returns nothing at the end of the stream.
  std::optional<std::string> receive() {
    std::string message(1500, '\0');
    for (;;) {
      std::size_t len = 0;
      const lh_code code = lh_stream_receive(stream_.get(), message.data(), message.size(), &len);
      if (code == LH_END) return std::nullopt;
      if (code == LH_USAGE && len > message.size()) {
        message.resize(len);
        continue;
      }
      detail::check(code);
      message.resize(len);
      return message;
    }
  }

  // Ends the stream, and waits until all messages have arrived.
  lh_report finish() {
    lh_report report{};
    detail::check(lh_stream_finish(stream_.get(), &report));
    return report;
  }

  void cancel() { detail::check(lh_stream_cancel(stream_.get())); }

 private:
  friend class Client;
  detail::Owned<lh_stream, lh_stream_close> stream_;
};

// Client of other hosts.
class Client {
 public:
  Client() { detail::check(lh_client_open(nullptr, client_.out())); }

  explicit Client(const Settings &settings) {
    lh_client_request request{};
    request.size = sizeof request;
    request.key = detail::text(settings.key);
    request.known_hosts = detail::text(settings.known_hosts);
    request.pin = detail::text(settings.pin);
    request.token = detail::text(settings.token);
    request.statement = detail::text(settings.statement);
    request.ssh = detail::text(settings.ssh);
    request.remote = detail::text(settings.remote);
    request.gateway = detail::text(settings.gateway);
    request.known_paths = detail::text(settings.known_paths);
    request.strict = settings.strict;
    request.install = settings.install;
    detail::check(lh_client_open(&request, client_.out()));
  }

  // Starts a copy.
  Transfer start(const Copy &copy) const {
    std::vector<const char *> sources;
    for (const auto &source : copy.sources) sources.push_back(source.c_str());
    lh_copy_request request{};
    request.size = sizeof request;
    request.sources = sources.data();
    request.source_count = sources.size();
    request.target = copy.target.c_str();
    request.rate = detail::text(copy.rate);
    request.limit = detail::text(copy.limit);
    request.protocol = detail::text(copy.protocol);
    if (copy.retries) request.retries = *copy.retries == 0 ? -1 : static_cast<std::int32_t>(*copy.retries);
    request.exact = copy.exact;
    request.archive = copy.archive;
    request.checksum = copy.checksum;
    request.update = copy.update;
    request.delete_extra = copy.delete_extra;
    request.verify_disk = copy.verify_disk;
    request.plain = copy.plain;
    request.no_udp = !copy.udp;
    Transfer transfer;
    if (copy.progress) {
      transfer.observer_ = std::make_unique<Transfer::Observer>();
      transfer.observer_->function = copy.progress;
      request.progress = [](void *data, const lh_progress *progress) -> std::int32_t {
        auto &observer = *static_cast<Transfer::Observer *>(data);
        return observer.thrown.run([&] { return observer.function(*progress); });
      };
      request.data = transfer.observer_.get();
    }
    detail::check(lh_copy_start(client_.get(), &request, transfer.transfer_.out()));
    return transfer;
  }

  // Makes a copy, and waits for its end.
  lh_summary copy(const Copy &copy) const { return start(copy).wait(); }
  lh_summary copy(std::string source, std::string target) const {
    Copy request;
    request.sources = {std::move(source)};
    request.target = std::move(target);
    return copy(request);
  }

  // Connects to the files of a host.
  Files files(const std::string &place, bool writable = false) const {
    Files files;
    detail::check(lh_files_open(client_.get(), place.c_str(), writable, files.files_.out()));
    return files;
  }

  // Opens a stream to a pipe or file of another host.
  Stream stream_to(const std::string &place, const StreamOptions &options = {}) const {
    lh_stream_request request{};
    request.to = place.c_str();
    return open(request, options);
  }

  // Opens a stream from a pipe or file of another host.
  Stream stream_from(const std::string &place, const StreamOptions &options = {}) const {
    lh_stream_request request{};
    request.from = place.c_str();
    return open(request, options);
  }

 private:
  Stream open(lh_stream_request &request, const StreamOptions &options) const {
    request.size = sizeof request;
    request.rate = detail::text(options.rate);
    request.code = detail::text(options.code);
    request.linger_us = static_cast<std::uint64_t>(options.linger.count());
    request.deadline_us = static_cast<std::uint64_t>(options.deadline.count());
    request.delay_us = static_cast<std::uint64_t>(options.delay.count());
    request.object_bytes = options.object_bytes;
    request.objects_per_second = options.objects_per_second;
    request.message_bytes = options.message_bytes;
    request.frames = options.frames;
    request.drop_late = options.drop_late;
    request.plain = options.plain;
    request.no_udp = !options.udp;
    Stream stream;
    detail::check(lh_stream_open(client_.get(), &request, stream.stream_.out()));
    return stream;
  }

  detail::Owned<lh_client, lh_client_close> client_;
};

}  // namespace lighthaul

#endif  // LIGHTHAUL_HPP
