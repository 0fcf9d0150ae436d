// Lighthaul for programs in C++17: copies, files of other hosts, streams and reservations, over
// lighthaul.h. The guide is docs/src/c.md.
//
// Objects own their handles: a destructor closes, and a moved object is empty. Failures are exceptions of the class
// lighthaul::Error. Threads can share objects. Objects of one client may live longer than the client.
//
// A callback may throw: its exception ends the operation, and the call that waits for the operation throws it again.

#ifndef LIGHTHAUL_HPP
#define LIGHTHAUL_HPP

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
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

// Returns the text for C, which would end it at a zero byte.
inline const char *c_text(const std::string &text) {
  if (text.find('\0') != std::string::npos) {
    throw Error(LH_USAGE, "a path or an option has a zero byte", "remove the zero byte");
  }
  return text.c_str();
}

inline const char *text(const std::string &text) {
  return text.empty() ? nullptr : c_text(text);
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
  std::string scheduler, scheduler_token_file, scheduler_pin;
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
  // Filter rules in their order, as in "- *.tmp".
  std::vector<std::string> filters;
  // Longest time without a response, and longest time of the copy; 0 for the default and for no limit.
  std::chrono::seconds stall_timeout{0}, time_limit{0};
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
    detail::check(lh_files_stat(files_.get(), detail::c_text(path), follow, &item));
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
    const lh_code code = lh_files_list(files_.get(), detail::c_text(path), each, &taking);
    taking.thrown.rethrow();
    detail::check(code);
    return std::move(taking.items);
  }

  void make_directory(const std::string &path) { detail::check(lh_files_make_directory(files_.get(), detail::c_text(path))); }
  void remove(const std::string &path) { detail::check(lh_files_remove(files_.get(), detail::c_text(path))); }
  void remove_directory(const std::string &path) { detail::check(lh_files_remove_directory(files_.get(), detail::c_text(path))); }
  void rename(const std::string &from, const std::string &to, bool replace = false) {
    detail::check(lh_files_rename(files_.get(), detail::c_text(from), detail::c_text(to), replace));
  }

  // Copies a file on the host, without its bytes passing this host.
  void copy(const std::string &from, const std::string &to, bool replace = false) {
    detail::check(lh_files_copy(files_.get(), detail::c_text(from), detail::c_text(to), replace));
  }

  Reader open(const std::string &path) const {
    Reader reader;
    detail::check(lh_reader_open(files_.get(), detail::c_text(path), reader.reader_.out()));
    return reader;
  }

  Writer create(const std::string &path, bool is_new = false) {
    Writer writer;
    detail::check(lh_writer_create(files_.get(), detail::c_text(path), is_new, writer.writer_.out()));
    return writer;
  }

  Writer append(const std::string &path) {
    Writer writer;
    detail::check(lh_writer_append(files_.get(), detail::c_text(path), writer.writer_.out()));
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

  // Waits for the next message, for a limited time. Returns LH_PENDING if none has arrived, and LH_END at the end.
  lh_code receive_for(std::chrono::milliseconds limit, std::string &message) {
    using std::chrono::milliseconds;
    message.resize(1500);
    const auto longest = milliseconds(std::numeric_limits<std::uint32_t>::max());
    const auto until = std::chrono::steady_clock::now() + std::clamp(limit, milliseconds(0), longest);
    for (;;) {
      std::size_t len = 0;
      const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
      const auto most = static_cast<std::uint32_t>(std::clamp(left, milliseconds(0), longest).count());
      const lh_code code = lh_stream_receive_within(stream_.get(), most, message.data(), message.size(), &len);
      if (code == LH_END || code == LH_PENDING) return code;
      if (code == LH_USAGE && len > message.size()) {
        message.resize(len);
        continue;
      }
      detail::check(code);
      message.resize(len);
      return code;
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

namespace detail {

// Constant of the C interface for a type of numbers.
template <typename Number>
constexpr std::int32_t number() {
  static_assert(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>, "arrays have numbers");
  if constexpr (std::is_floating_point_v<Number>) {
    static_assert(sizeof(Number) <= 8, "float and double only");
    return sizeof(Number) == 4 ? LH_F32 : LH_F64;
  } else {
    constexpr std::int32_t width = sizeof(Number) == 1 ? 0 : sizeof(Number) == 2 ? 1 : sizeof(Number) == 4 ? 2 : 3;
    return (std::is_signed_v<Number> ? LH_I8 : LH_U8) + width;
  }
}

}  // namespace detail

// Schema of typed messages, as in "Pose { time: f64, joints: [f32], name: text }".
class Schema {
 public:
  explicit Schema(const std::string &text) { detail::check(lh_schema_parse(detail::c_text(text), schema_.out())); }

 private:
  friend class Client;
  friend class Message;
  detail::Owned<lh_schema, lh_schema_close> schema_;
};

// Typed message. Arrays are copied as a whole.
class Message {
 public:
  explicit Message(const Schema &schema) { detail::check(lh_message_create(schema.schema_.get(), message_.out())); }

  // Reads a packed message.
  Message(const Schema &schema, const std::string &octets) {
    detail::check(lh_message_unpack(schema.schema_.get(), octets.data(), octets.size(), message_.out()));
  }

  Message &set(const char *field, bool value) { return done(lh_message_set_bool(message_.get(), field, value)); }
  Message &set(const char *field, const std::string &text) {
    return done(lh_message_set_string(message_.get(), field, text.data(), text.size()));
  }
  Message &set(const char *field, const char *text) { return done(lh_message_set_text(message_.get(), field, text)); }

  template <typename Number, std::enable_if_t<std::is_arithmetic_v<Number>, int> = 0>
  Message &set(const char *field, Number value) {
    if constexpr (std::is_floating_point_v<Number>) {
      return done(lh_message_set_float(message_.get(), field, value));
    } else if constexpr (std::is_signed_v<Number>) {
      return done(lh_message_set_signed(message_.get(), field, value));
    } else {
      return done(lh_message_set_unsigned(message_.get(), field, value));
    }
  }

  Message &set_bytes(const char *field, const void *bytes, std::size_t len) {
    return done(lh_message_set_bytes(message_.get(), field, bytes, len));
  }

  template <typename Number>
  Message &set(const char *field, const Number *values, std::size_t count) {
    return done(lh_message_set_array(message_.get(), field, detail::number<Number>(), values, count));
  }
  template <typename Number>
  Message &set(const char *field, const std::vector<Number> &values) {
    return set(field, values.data(), values.size());
  }

  bool boolean(const char *field) const { return value<std::int32_t>(field, lh_message_bool) != 0; }
  std::uint64_t unsigned_number(const char *field) const { return value<std::uint64_t>(field, lh_message_unsigned); }
  std::int64_t signed_number(const char *field) const { return value<std::int64_t>(field, lh_message_signed); }
  double floating(const char *field) const { return value<double>(field, lh_message_float); }

  // Text or octets of a field.
  std::string bytes(const char *field) const {
    return filled([&](void *buffer, std::size_t room, std::size_t *len) {
      return lh_message_bytes(message_.get(), field, buffer, room, len);
    });
  }

  template <typename Number>
  std::vector<Number> array(const char *field) const {
    std::vector<Number> values;
    std::size_t count = 0;
    for (;;) {
      const lh_code code = lh_message_array(message_.get(), field, detail::number<Number>(), values.data(), values.size(), &count);
      const bool is_short = code == LH_USAGE && count > values.size();
      if (!is_short) detail::check(code);
      values.resize(count);
      if (!is_short) return values;
      count = 0;
    }
  }

  // Octets for a file or another channel.
  std::string pack() const {
    return filled([&](void *buffer, std::size_t room, std::size_t *len) {
      return lh_message_pack(message_.get(), buffer, room, len);
    });
  }

 private:
  friend class TypedStream;
  Message() = default;

  Message &done(lh_code code) {
    detail::check(code);
    return *this;
  }

  template <typename Value>
  Value value(const char *field, lh_code (*read)(lh_message, const char *, Value *)) const {
    Value value{};
    detail::check(read(message_.get(), field, &value));
    return value;
  }

  template <typename Fill>
  static std::string filled(Fill fill) {
    std::string octets;
    std::size_t len = 0;
    for (;;) {
      const lh_code code = fill(octets.data(), octets.size(), &len);
      const bool is_short = code == LH_USAGE && len > octets.size();
      if (!is_short) detail::check(code);
      octets.resize(len);
      if (!is_short) return octets;
      len = 0;
    }
  }

  detail::Owned<lh_message, lh_message_close> message_;
};

// Running stream of typed messages, in one direction. The destructor cancels it, and waits for its end.
class TypedStream {
 public:
  void send(const Message &message) { detail::check(lh_typed_send(stream_.get(), message.message_.get())); }

  // Waits for the next message. Returns nothing at the end of the stream. Throws LH_PROTOCOL if the schemas differ.
  std::optional<Message> receive() {
    Message message;
    const lh_code code = lh_typed_receive(stream_.get(), message.message_.out());
    if (code == LH_END) return std::nullopt;
    detail::check(code);
    return message;
  }

  // Ends the stream, and waits until all messages have arrived.
  lh_report finish() {
    lh_report report{};
    detail::check(lh_typed_finish(stream_.get(), &report));
    return report;
  }

 private:
  friend class Client;
  detail::Owned<lh_typed, lh_typed_close> stream_;
};

// Request for capacity. An empty string or 0 stands for the default.
struct Capacity {
  std::string from, to, rate_max, rate_min;
  std::uint64_t bytes = 0;
  std::chrono::seconds hold{0};
  std::chrono::nanoseconds start{0}, by{0};
  bool fixed = false;
  bool commit = false;
};

// Capacity that a scheduler has reserved. It stays when this object is destroyed.
class Reservation {
 public:
  // Reservation at the last contact with the scheduler.
  const lh_reservation_info &info() const noexcept { return info_; }

  void refresh() { detail::check(lh_reservation_look(reservation_.get(), &info_)); }
  void commit() { detail::check(lh_reservation_commit(reservation_.get(), &info_)); }
  void cancel(const std::string &why = {}) {
    detail::check(lh_reservation_cancel(reservation_.get(), detail::text(why), &info_));
  }
  void release(const std::string &why = {}) {
    detail::check(lh_reservation_release(reservation_.get(), detail::text(why), &info_));
  }

  // Waits until it is active.
  void wait() { detail::check(lh_reservation_wait(reservation_.get(), -1, &info_)); }

  // Waits for a limited time. Returns false if it has not started.
  bool wait_for(std::chrono::milliseconds limit) {
    const auto most = limit.count() < 0 ? 0 : limit.count();
    const lh_code code = lh_reservation_wait(reservation_.get(), most, &info_);
    if (code == LH_PENDING) return false;
    detail::check(code);
    return true;
  }

  // Ends waits of other threads for its start: their error is LH_INTERRUPTED. No later call is possible.
  void close() { detail::check(lh_reservation_close(reservation_.get())); }

 private:
  friend class Client;
  detail::Owned<lh_reservation, lh_reservation_close> reservation_;
  lh_reservation_info info_{};
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
    request.scheduler = detail::text(settings.scheduler);
    request.scheduler_token_file = detail::text(settings.scheduler_token_file);
    request.scheduler_pin = detail::text(settings.scheduler_pin);
    request.strict = settings.strict;
    request.install = settings.install;
    detail::check(lh_client_open(&request, client_.out()));
  }

  // Starts a copy.
  Transfer start(const Copy &copy) const {
    std::vector<const char *> sources;
    for (const auto &source : copy.sources) sources.push_back(detail::c_text(source));
    lh_copy_request request{};
    request.size = sizeof request;
    request.sources = sources.data();
    request.source_count = sources.size();
    request.target = detail::c_text(copy.target);
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
    std::vector<const char *> filters;
    for (const auto &filter : copy.filters) filters.push_back(detail::c_text(filter));
    request.filters = filters.data();
    request.filter_count = filters.size();
    request.stall_timeout_s = static_cast<std::uint32_t>(copy.stall_timeout.count());
    request.time_limit_s = static_cast<std::uint32_t>(copy.time_limit.count());
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
    detail::check(lh_files_open(client_.get(), detail::c_text(place), writable, files.files_.out()));
    return files;
  }

  // Reserves capacity at the scheduler of the settings.
  Reservation reserve(const Capacity &capacity) const {
    lh_reservation_request request{};
    request.size = sizeof request;
    request.from = detail::text(capacity.from);
    request.to = detail::text(capacity.to);
    request.rate_max = detail::text(capacity.rate_max);
    request.rate_min = detail::text(capacity.rate_min);
    request.bytes = capacity.bytes;
    request.hold_s = static_cast<std::uint64_t>(capacity.hold.count());
    request.start_ns = static_cast<std::uint64_t>(capacity.start.count());
    request.by_ns = static_cast<std::uint64_t>(capacity.by.count());
    request.fixed = capacity.fixed;
    request.commit = capacity.commit;
    Reservation made;
    detail::check(lh_reservation_make(client_.get(), &request, made.reservation_.out(), &made.info_));
    return made;
  }

  // Opens the reservation with this number.
  Reservation reservation(std::uint64_t number) const {
    Reservation found;
    detail::check(lh_reservation_open(client_.get(), number, found.reservation_.out(), &found.info_));
    return found;
  }

  // Opens a stream of typed messages to a pipe or file of another host.
  TypedStream typed_to(const std::string &place, const Schema &schema, const StreamOptions &options = {}) const {
    lh_stream_request request{};
    request.to = detail::c_text(place);
    return open(request, options, schema);
  }

  // Opens a stream of typed messages from a pipe or file of another host.
  TypedStream typed_from(const std::string &place, const Schema &schema, const StreamOptions &options = {}) const {
    lh_stream_request request{};
    request.from = detail::c_text(place);
    return open(request, options, schema);
  }

  // Opens a stream to a pipe or file of another host.
  Stream stream_to(const std::string &place, const StreamOptions &options = {}) const {
    lh_stream_request request{};
    request.to = detail::c_text(place);
    return open(request, options);
  }

  // Opens a stream from a pipe or file of another host.
  Stream stream_from(const std::string &place, const StreamOptions &options = {}) const {
    lh_stream_request request{};
    request.from = detail::c_text(place);
    return open(request, options);
  }

 private:
  Stream open(lh_stream_request &request, const StreamOptions &options) const {
    fill(request, options);
    Stream stream;
    detail::check(lh_stream_open(client_.get(), &request, stream.stream_.out()));
    return stream;
  }

  TypedStream open(lh_stream_request &request, const StreamOptions &options, const Schema &schema) const {
    fill(request, options);
    TypedStream stream;
    detail::check(lh_typed_open(client_.get(), &request, schema.schema_.get(), stream.stream_.out()));
    return stream;
  }

  static void fill(lh_stream_request &request, const StreamOptions &options) {
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
  }

  detail::Owned<lh_client, lh_client_close> client_;
};

}  // namespace lighthaul

#endif  // LIGHTHAUL_HPP
