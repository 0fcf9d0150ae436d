// Lighthaul for programs in C: copies, files of other hosts, streams and reservations. The guide is docs/src/c.md.
//
// Results: functions return LH_OK or another code. Then lh_error_message() and lh_error_remedy() describe the failure,
// in the thread of the call. After a failure, output arguments are undefined.
//
// Handles, such as lh_client: the program closes each handle that it opens, once, in any order. A closed or wrong
// handle is an error, never a crash. Threads can share handles. A child process cannot use the handles of its parent.
//
// Memory: strings and buffers belong to the program, and are not used after the call that takes them. Strings that the
// library passes to a callback are valid during that callback. Text is UTF-8; paths are any bytes that end with zero.
//
// Structures that begin with `size` are requests: set the whole structure to zero, then `size` to its size in bytes.
// Fields that are zero have their defaults.
//
// This file is generated: see crates/capi/tests/interface.

#ifndef LIGHTHAUL_H
#define LIGHTHAUL_H

#include <stddef.h>
#include <stdint.h>

// The function has succeeded.
#define LH_OK 0

// The stream has ended. This is no failure.
#define LH_END -1

// The work has not ended within the time limit. This is no failure.
#define LH_PENDING -2

// The request is invalid.
#define LH_USAGE 1

// The two sides do not understand each other.
#define LH_PROTOCOL 2

// The source or the target cannot be opened.
#define LH_OPEN 3

// The network failed; a retry may succeed.
#define LH_NETWORK 10

// Reading or writing a file failed.
#define LH_IO 11

// The received data differ from the sent data; nothing was published.
#define LH_INTEGRITY 12

// The key or the permission is missing.
#define LH_PERMISSION 13

// The work was cancelled.
#define LH_INTERRUPTED 20

// Some entries of a copy failed; see `lh_transfer_failures()`.
#define LH_PARTIAL 23

// Source files changed while they were sent.
#define LH_CHANGED 24

// Some items were not deleted, because the deletion limit was reached.
#define LH_DELETE_LIMIT 25

// The peer was silent for too long.
#define LH_TIMED_OUT 30

// A deadline or a reservation was refused.
#define LH_REFUSED 40

// Internal error: a bug in the library.
#define LH_INTERNAL 70

// The daemon is being stopped; a retry may succeed.
#define LH_STOPPING 75

// Kind of an item: a file.
#define LH_FILE 1

// Kind of an item: a directory.
#define LH_DIRECTORY 2

// Kind of an item: a symbolic link.
#define LH_LINK 3

// Kind of an item: a device, a socket or a FIFO.
#define LH_OTHER 4

// Framing: each message follows its length, a big-endian number of four bytes.
#define LH_PREFIXED 0

// Framing: each message is a line.
#define LH_LINES 1

// Framing: each message has `message_bytes` bytes; the last one may have fewer.
#define LH_FIXED 2

// Type of the numbers of an array: `uint8_t`.
#define LH_U8 0

// `uint16_t`
#define LH_U16 1

// `uint32_t`
#define LH_U32 2

// `uint64_t`
#define LH_U64 3

// `int8_t`
#define LH_I8 4

// `int16_t`
#define LH_I16 5

// `int32_t`
#define LH_I32 6

// `int64_t`
#define LH_I64 7

// `float`
#define LH_F32 8

// `double`
#define LH_F64 9

// State: capacity is held for a limited time.
#define LH_RESERVED 0

// State: capacity is promised.
#define LH_COMMITTED 1

// State: devices have the circuits.
#define LH_PROVISIONED 2

// State: the circuits carry packets.
#define LH_ACTIVE 3

// State: it has ended, early or on time.
#define LH_RELEASED 4

// State: a user has canceled it, or it was not committed in time.
#define LH_TERMINATED 5

// State: a component has failed.
#define LH_FAILED 6

// Result of a function: `LH_OK`, `LH_END`, `LH_PENDING`, or the exit status of the command for the same failure.
typedef int32_t lh_code;

// Function that receives notices, for example about the key of a new host. The library may call it in any thread.
typedef void (*lh_note_function)(void *data, const char *text);

// Settings of a client. Settings that are not given come from the user's files, as for the command.
typedef struct {
  // Size of this structure in bytes.
  size_t size;
  // File with the private key of this program, which is created if missing.
  const char *key;
  // File with the keys of known hosts.
  const char *known_hosts;
  // Key that the daemon must have, as in sha256:...
  const char *pin;
  // Token for the daemon.
  const char *token;
  // File with the statement of an authority.
  const char *statement;
  // Command for hosts without a daemon [default: ssh].
  const char *ssh;
  // Program on hosts without a daemon [default: lighthaul].
  const char *remote;
  // Gateway on the path, as in `socks5://HOST:PORT`.
  const char *gateway;
  // File with rates that earlier copies have measured.
  const char *known_paths;
  // 1 to refuse daemons whose key is not known.
  int32_t strict;
  // 1 to install the program on a host without it.
  int32_t install;
  // Function that receives notices; null for none.
  lh_note_function note;
  // First argument of that function. It must stay valid until the client and all that it opened are closed.
  void *data;
  // URL of the scheduler that reserves capacity, as in <https://books.example.org:4811>.
  const char *scheduler;
  // File with a token for the scheduler.
  const char *scheduler_token_file;
  // Key that the scheduler must have, instead of a certificate.
  const char *scheduler_pin;
} lh_client_request;

// Client that connects to other hosts. It has a private key and a list of known hosts.
typedef struct {
  // Number of the handle; zero for none.
  uint64_t id;
} lh_client;

// Progress of a copy.
typedef struct {
  // Bytes that have arrived.
  uint64_t done;
  // Total size of the files to send, in bytes.
  uint64_t total;
  // Files, directories and links in place.
  uint64_t entries;
} lh_progress;

// Function that receives the progress of a copy, in the thread of the copy. A nonzero return value cancels the copy. A
// small copy may end without a call.
typedef int32_t (*lh_progress_function)(void *data, const lh_progress *progress);

// Request for a copy. Places are written as on the command line: PATH, `lh://HOST/PATH` or HOST:PATH.
typedef struct {
  // Size of this structure in bytes.
  size_t size;
  // Sources, all on one host.
  const char *const *sources;
  // Number of sources.
  size_t source_count;
  // Target.
  const char *target;
  // Rate on the wire, as in 900Mb/s [default: measured].
  const char *rate;
  // Limit of the rate, as in 10M, or 08:00,10M 18:00,off.
  const char *limit;
  // Protocol [default: auto].
  const char *protocol;
  // Retries after network failures [default: 5]; negative for none.
  int32_t retries;
  // 1 to use the target as the new name of the only source.
  int32_t exact;
  // 1 to preserve owners, too.
  int32_t archive;
  // 1 to compare contents instead of sizes and times.
  int32_t checksum;
  // 1 to skip files that are newer at the target.
  int32_t update;
  // 1 to delete entries at the target that the sources do not have.
  int32_t delete_extra;
  // 1 to read the files back from the target's device, and to compare them with the source.
  int32_t verify_disk;
  // 1 to send data without encryption, if the other side agrees.
  int32_t plain;
  // 1 to disable datagrams.
  int32_t no_udp;
  // Function that receives the progress; null for none.
  lh_progress_function progress;
  // First argument of that function. It must be valid until the copy is closed.
  void *data;
  // Filter rules in their order, as for rsync: `- *.tmp` leaves out, `+ *.h5` includes. The first match decides.
  const char *const *filters;
  // Number of filter rules.
  size_t filter_count;
  // Longest time without a response, in seconds [default: 20].
  uint32_t stall_timeout_s;
  // Longest time of the copy, in seconds [default: no limit]. The same request resumes it later.
  uint32_t time_limit_s;
} lh_copy_request;

// Running copy.
typedef struct {
  // Number of the handle; zero for none.
  uint64_t id;
} lh_transfer;

// Result of a copy.
typedef struct {
  // Files, directories and links in place.
  uint64_t entries;
  // Bytes of the files.
  uint64_t bytes;
  // Entries that were already in place.
  uint64_t unchanged;
  // Entries that failed.
  uint64_t failures;
  // Time of the copy, in nanoseconds.
  uint64_t elapsed_ns;
} lh_summary;

// Function that receives an entry that could not be copied, in the thread of the call.
typedef void (*lh_failure_function)(void *data, const char *path, lh_code code, const char *why);

// Connection to the files of a host.
typedef struct {
  // Number of the handle; zero for none.
  uint64_t id;
} lh_files;

// Item of a file system.
typedef struct {
  // Name in the listed directory; null from `lh_files_stat()`.
  const char *name;
  // Size of a file in bytes.
  uint64_t bytes;
  // Modification time, in seconds since 1970.
  int64_t modified_s;
  // Nanosecond part of the modification time.
  uint32_t modified_ns;
  // Permission bits.
  uint32_t mode;
  // User ID of the owner.
  uint32_t user;
  // Group ID.
  uint32_t group;
  // `LH_FILE`, `LH_DIRECTORY`, `LH_LINK` or `LH_OTHER`.
  int32_t kind;
} lh_item;

// Function that receives an item of a directory, in the thread of the call. A nonzero return value ends the list with
// `LH_INTERRUPTED`.
typedef int32_t (*lh_item_function)(void *data, const lh_item *item);

// File that is open for reading.
typedef struct {
  // Number of the handle; zero for none.
  uint64_t id;
} lh_reader;

// File that is open for writing. A new file gets its name at `lh_writer_commit()`; without a commit, it is removed.
typedef struct {
  // Number of the handle; zero for none.
  uint64_t id;
} lh_writer;

// Request for a stream to or from a pipe or file of another host. Exactly one of `to` and `from` must be set.
typedef struct {
  // Size of this structure in bytes.
  size_t size;
  // Place to which this program sends, as in `lh://HOST/PIPE`.
  const char *to;
  // Place from which this program receives.
  const char *from;
  // Highest rate on the wire, as in 900Mb/s [default: measured].
  const char *rate;
  // Forward error correction of messages: none, xor:N or rs:N+M [default: xor:3].
  const char *code;
  // Longest time that a message waits for the rest of its block, in microseconds [default: 2000].
  uint64_t linger_us;
  // Age from which a message counts as late, in microseconds [default: no limit].
  uint64_t deadline_us;
  // Size of the largest object in bytes. Nonzero for a stream of objects, which loses none; 0 for one of messages.
  uint64_t object_bytes;
  // Objects per second.
  double objects_per_second;
  // Time to collect a payload of objects, and also the time to send it, in microseconds [default: 500000].
  uint64_t delay_us;
  // Length of each message in bytes, for `LH_FIXED`.
  uint32_t message_bytes;
  // Framing of the messages in the pipe: `LH_PREFIXED`, `LH_LINES` or `LH_FIXED`.
  int32_t frames;
  // 1 to drop late messages.
  int32_t drop_late;
  // 1 to send data without encryption, if the other side agrees.
  int32_t plain;
  // 1 to disable datagrams, so that no message is lost.
  int32_t no_udp;
} lh_stream_request;

// Running stream.
typedef struct {
  // Number of the handle; zero for none.
  uint64_t id;
} lh_stream;

// Statistics of a stream.
typedef struct {
  // Messages or objects that were sent.
  uint64_t messages;
  // Messages or objects that arrived.
  uint64_t delivered;
  // Bytes of the messages or objects that arrived.
  uint64_t bytes;
  // Messages or objects that were late.
  uint64_t late;
  // Messages that did not arrive.
  uint64_t lost;
  // Lost messages that forward error correction restored.
  uint64_t repaired;
  // Messages that arrived and were dropped, because the reader was too slow.
  uint64_t unread;
  // Median of the latency, in microseconds.
  uint64_t latency_p50_us;
  // 99th percentile of the latency, in microseconds.
  uint64_t latency_p99_us;
  // Round-trip time of the path, in microseconds.
  uint64_t rtt_us;
} lh_report;

// Schema: the name of a message, and the names and types of its fields.
typedef struct {
  // Number of the handle; zero for none.
  uint64_t id;
} lh_schema;

// Typed message: values of the fields of a schema.
typedef struct {
  // Number of the handle; zero for none.
  uint64_t id;
} lh_message;

// Running stream of typed messages.
typedef struct {
  // Number of the handle; zero for none.
  uint64_t id;
} lh_typed;

// Request for capacity between two hosts of the topology, for `bytes` or for `hold_s`.
typedef struct {
  // Size of this structure in bytes.
  size_t size;
  // Source host.
  const char *from;
  // Target host.
  const char *to;
  // Highest usable rate, as in 10Gb/s [default: the highest that is free].
  const char *rate_max;
  // Lowest usable rate [default: none].
  const char *rate_min;
  // Amount of data in bytes; 0 to reserve a length of time.
  uint64_t bytes;
  // Length of time in seconds; 0 to reserve for an amount of data.
  uint64_t hold_s;
  // Earliest start, in nanoseconds since 1970 [default: now].
  uint64_t start_ns;
  // Latest end, in nanoseconds since 1970 [default: none].
  uint64_t by_ns;
  // 1 for one rate from start to end [default: the rate varies with the free capacity].
  int32_t fixed;
  // 1 to commit at once.
  int32_t commit;
} lh_reservation_request;

// Reserved capacity. It stays when its handle is closed.
typedef struct {
  // Number of the handle; zero for none.
  uint64_t id;
} lh_reservation;

// Reservation, as it was at the last contact with the scheduler. Times follow the clock of the scheduler.
typedef struct {
  // Number of the reservation at the scheduler.
  uint64_t number;
  // Start, in nanoseconds since 1970.
  uint64_t start_ns;
  // Time by which all data are moved, in nanoseconds since 1970.
  uint64_t end_ns;
  // Rate at the start, in bits a second.
  uint64_t rate_bps;
  // State, as in `LH_COMMITTED`.
  int32_t state;
} lh_reservation_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the code of the latest failure in this thread, or `LH_OK` if there was none.
lh_code lh_error_code(void);

// Returns one sentence about the latest failure in this thread. It is valid until the next failure in this thread.
const char *lh_error_message(void);

// Returns what to do about the latest failure in this thread. It is valid until the next failure in this thread.
const char *lh_error_remedy(void);

// Returns the version of the library, as in 0.1.0. It is always valid.
const char *lh_version(void);

// Opens a client. If `request` is null, the client has the defaults of the command. No connection is opened yet.
lh_code lh_client_open(const lh_client_request *request,
                       lh_client *client);

// Closes a client. Its copies, files and streams continue.
lh_code lh_client_close(lh_client client);

// Starts a copy.
lh_code lh_copy_start(lh_client client, const lh_copy_request *request, lh_transfer *transfer);

// Makes a copy, and waits for its end. `summary` may be null. `LH_PARTIAL` means that some entries failed: start the
// copy with `lh_copy_start()` to get their names.
lh_code lh_copy(lh_client client,
                const lh_copy_request *request,
                lh_summary *summary);

// Waits up to `timeout_ms` milliseconds for the end of a copy; without a limit if that is negative. Returns
// `LH_PENDING` if the copy still runs. `summary` may be null.
lh_code lh_transfer_wait(lh_transfer transfer,
                         int64_t timeout_ms,
                         lh_summary *summary);

// Stores the latest progress of a copy.
lh_code lh_transfer_progress(lh_transfer transfer, lh_progress *progress);

// Calls `each` for each entry that failed. Before the end of the copy, there are none.
lh_code lh_transfer_failures(lh_transfer transfer, lh_failure_function each, void *data);

// Cancels a copy, also from a callback. Incomplete files do not get their final names. The same copy can resume later.
lh_code lh_transfer_cancel(lh_transfer transfer);

// Cancels a copy that runs, waits for its end, and closes it. After that, its callback is not called. Within a
// callback, it does not wait: it returns `LH_PENDING` if the copy has not ended, whose callback may run until it has.
lh_code lh_transfer_close(lh_transfer transfer);

// Connects to the files of the host of `place`, as in `lh://HOST/`. `writable` is 1 to ask for the right to write.
lh_code lh_files_open(lh_client client,
                      const char *place,
                      int32_t writable,
                      lh_files *files);

// Closes a connection to files. Open readers and writers continue.
lh_code lh_files_close(lh_files files);

// Describes the item at `path`, or the target of a link if `follow` is 1.
lh_code lh_files_stat(lh_files files, const char *path, int32_t follow, lh_item *item);

// Calls `each` for each item of the directory at `path`.
lh_code lh_files_list(lh_files files, const char *path, lh_item_function each, void *data);

// Creates a directory.
lh_code lh_files_make_directory(lh_files files, const char *path);

// Removes a file or a link.
lh_code lh_files_remove(lh_files files, const char *path);

// Removes an empty directory.
lh_code lh_files_remove_directory(lh_files files, const char *path);

// Renames `from` to `to`. An existing `to` is replaced only if `replace` is 1.
lh_code lh_files_rename(lh_files files, const char *from, const char *to, int32_t replace);

// Copies the file `from` to `to` on the host, without its bytes passing this host. An existing `to` is replaced only if
// `replace` is 1.
lh_code lh_files_copy(lh_files files,
                      const char *from,
                      const char *to,
                      int32_t replace);

// Opens a file for reading. Reads fail with `LH_CHANGED` if another program changes the file.
lh_code lh_reader_open(lh_files files, const char *path, lh_reader *reader);

// Stores the size of the file in bytes.
lh_code lh_reader_size(lh_reader reader, uint64_t *bytes);

// Reads up to `len` bytes at `offset` into `buffer`, and stores the number of bytes read. It is below `len` only at
// the end of the file. Sequential reads use read-ahead.
lh_code lh_reader_read(lh_reader reader,
                       uint64_t offset,
                       void *buffer,
                       size_t len,
                       size_t *got);

// Closes a reader.
lh_code lh_reader_close(lh_reader reader);

// Creates a file, which replaces an existing file at the commit. If `is_new` is 1, the path must not exist.
lh_code lh_writer_create(lh_files files,
                         const char *path,
                         int32_t is_new,
                         lh_writer *writer);

// Opens a file for appending.
lh_code lh_writer_append(lh_files files, const char *path, lh_writer *writer);

// Stores the size of the file in bytes, including all writes.
lh_code lh_writer_size(lh_writer writer, uint64_t *bytes);

// Writes bytes at an offset. In a file that is open for appending, the offset must be the end. A later call for this
// writer may report the failure of a write.
lh_code lh_writer_write(lh_writer writer,
                        uint64_t offset,
                        const void *bytes,
                        size_t len);

// Flushes all writes to the disk of the host, and gives a new file its name.
lh_code lh_writer_commit(lh_writer writer);

// Closes a writer. Writes after the last commit are discarded.
lh_code lh_writer_close(lh_writer writer);

// Opens a stream, and returns before it is connected. A later call reports a failure to connect.
lh_code lh_stream_open(lh_client client, const lh_stream_request *request, lh_stream *stream);

// Sends a message. Waits while the buffer of the stream is full, so a function for notices cannot call it.
lh_code lh_stream_send(lh_stream stream,
                       const void *message,
                       size_t len);

// Waits for the next message, copies it into `buffer`, and stores its length. Returns `LH_END` at the end of the
// stream. If the buffer is too small, returns `LH_USAGE` and stores the length; the message is kept for the next call.
// Within a callback, only `lh_stream_receive_within()` can be called.
lh_code lh_stream_receive(lh_stream stream,
                          void *buffer,
                          size_t capacity,
                          size_t *len);

// Does the same as `lh_stream_receive()`, but waits for `timeout_ms` milliseconds at most. Returns `LH_PENDING` if no
// message has arrived by then. With 0, it takes a message that has arrived, and does not wait.
lh_code lh_stream_receive_within(lh_stream stream,
                                 uint32_t timeout_ms,
                                 void *buffer,
                                 size_t capacity,
                                 size_t *len);

// Ends a stream, and waits until all messages have arrived. A stream that receives ends with its source; messages that
// were not received are dropped. `report` may be null. A callback cannot call it.
lh_code lh_stream_finish(lh_stream stream,
                         lh_report *report);

// Cancels a stream, also while another thread waits for it. It ends with `LH_INTERRUPTED`.
lh_code lh_stream_cancel(lh_stream stream);

// Cancels a stream that runs, also while another thread waits for it, waits for its end, and closes it. Within a
// callback, it does not wait.
lh_code lh_stream_close(lh_stream stream);

// Reads a schema, as in `Pose { time: f64, joints: [f32], name: text }`. Types are bool, text, bytes, numbers as in u8,
// i32 and f64, and arrays as in [f32] and [f32; 16].
lh_code lh_schema_parse(const char *text,
                        lh_schema *schema);

// Closes a schema. Messages and streams keep it.
lh_code lh_schema_close(lh_schema schema);

// Makes a message without values.
lh_code lh_message_create(lh_schema schema, lh_message *message);

// Closes a message.
lh_code lh_message_close(lh_message message);

// Sets a field of type bool: 0 is false.
lh_code lh_message_set_bool(lh_message message, const char *field, int32_t value);

// Sets a field that is a number.
lh_code lh_message_set_unsigned(lh_message message, const char *field, uint64_t value);

// Sets a field that is a number.
lh_code lh_message_set_signed(lh_message message, const char *field, int64_t value);

// Sets a field of type f32 or f64.
lh_code lh_message_set_float(lh_message message, const char *field, double value);

// Sets a field of type text, which ends with zero.
lh_code lh_message_set_text(lh_message message, const char *field, const char *value);

// Sets a field of type text to the `len` bytes at `value`, which must be UTF-8. Zero bytes are part of the text.
lh_code lh_message_set_string(lh_message message,
                              const char *field,
                              const char *value,
                              size_t len);

// Sets a field of type bytes.
lh_code lh_message_set_bytes(lh_message message, const char *field, const void *value, size_t len);

// Sets a field that is an array: `count` numbers of a type as in `LH_F32`, in the memory of this host.
lh_code lh_message_set_array(lh_message message,
                             const char *field,
                             int32_t number,
                             const void *values,
                             size_t count);

// Stores the value of a field of type bool: 1 or 0.
lh_code lh_message_bool(lh_message message, const char *field, int32_t *value);

// Stores the value of a field that is a number of 0 or more.
lh_code lh_message_unsigned(lh_message message, const char *field, uint64_t *value);

// Stores the value of a field that is a number with a sign.
lh_code lh_message_signed(lh_message message, const char *field, int64_t *value);

// Stores the value of a field of type f32 or f64.
lh_code lh_message_float(lh_message message, const char *field, double *value);

// Copies the octets of a text or of bytes into `buffer`, and stores their number. There is no zero at the end. If the
// buffer is too small, returns `LH_USAGE` and stores the number.
lh_code lh_message_bytes(lh_message message,
                         const char *field,
                         void *buffer,
                         size_t capacity,
                         size_t *len);

// Copies the numbers of an array into `values`, which has room for `capacity` numbers, and stores their number. If
// there are more, returns `LH_USAGE` and stores the number.
lh_code lh_message_array(lh_message message,
                         const char *field,
                         int32_t number,
                         void *values,
                         size_t capacity,
                         size_t *count);

// Packs a message into `buffer`, for example for a file, and stores the number of octets. All fields must be set.
lh_code lh_message_pack(lh_message message,
                        void *buffer,
                        size_t capacity,
                        size_t *len);

// Reads a packed message of a schema.
lh_code lh_message_unpack(lh_schema schema, const void *octets, size_t len, lh_message *message);

// Opens a stream of messages of a schema, as `lh_stream_open()` does. The framing is `LH_PREFIXED`.
lh_code lh_typed_open(lh_client client,
                      const lh_stream_request *request,
                      lh_schema schema,
                      lh_typed *stream);

// Sends a message. Waits while the buffer of the stream is full, so a function for notices cannot call it.
lh_code lh_typed_send(lh_typed stream,
                      lh_message message);

// Waits for the next message, which the program closes. Returns `LH_END` at the end of the stream, and `LH_PROTOCOL`
// with the difference if the sender has another schema. A callback cannot call it.
lh_code lh_typed_receive(lh_typed stream,
                         lh_message *message);

// Ends a stream, and waits until all messages have arrived, as `lh_stream_finish()` does. `report` may be null.
lh_code lh_typed_finish(lh_typed stream,
                        lh_report *report);

// Cancels a stream, waits for its end, and closes it, as `lh_stream_close()` does.
lh_code lh_typed_close(lh_typed stream);

// Reserves capacity at the scheduler of the client. Without `commit`, it is held for a short time. `info` may be null.
lh_code lh_reservation_make(lh_client client,
                            const lh_reservation_request *request,
                            lh_reservation *reservation,
                            lh_reservation_info *info);

// Opens the reservation with this number, for example of another program. `info` may be null.
lh_code lh_reservation_open(lh_client client,
                            uint64_t number,
                            lh_reservation *reservation,
                            lh_reservation_info *info);

// Reads a reservation again.
lh_code lh_reservation_look(lh_reservation reservation, lh_reservation_info *info);

// Commits a reservation. `info` may be null.
lh_code lh_reservation_commit(lh_reservation reservation, lh_reservation_info *info);

// Cancels a reservation. `why`, for its journal, and `info` may be null.
lh_code lh_reservation_cancel(lh_reservation reservation,
                              const char *why,
                              lh_reservation_info *info);

// Releases the remaining capacity of a reservation that has started. `why` and `info` may be null.
lh_code lh_reservation_release(lh_reservation reservation,
                               const char *why,
                               lh_reservation_info *info);

// Waits up to `timeout_ms` milliseconds until a reservation is active; without a limit if that is negative. Returns
// `LH_PENDING` if it has not started, and `LH_INTERRUPTED` if another thread closes the reservation. `info` may be null.
lh_code lh_reservation_wait(lh_reservation reservation,
                            int64_t timeout_ms,
                            lh_reservation_info *info);

// Closes a reservation, and ends waits for its start. Its capacity stays reserved.
lh_code lh_reservation_close(lh_reservation reservation);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LIGHTHAUL_H */
