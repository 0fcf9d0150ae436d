// Wrong calls, each of which must be an error: faults lh://HOST:PORT/ PIN KEY FOLDER.

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lighthaul.h"

#define EXPECT(wanted, call) expect(__LINE__, #call, wanted, call)

static void expect(int line, const char *call, lh_code wanted, lh_code code) {
    if (code != wanted) {
        fprintf(stderr, "line %d: %s is %d, not %d: %s\n", line, call, (int)code, (int)wanted, lh_error_message());
        exit(1);
    }
    if (code > 0 && (lh_error_code() != code || !*lh_error_message() || !*lh_error_remedy())) {
        fprintf(stderr, "line %d: %s has no description\n", line, call);
        exit(1);
    }
}

static void expect_text(int line, const char *part) {
    if (!strstr(lh_error_message(), part)) {
        fprintf(stderr, "line %d: no \"%s\" in %s\n", line, part, lh_error_message());
        exit(1);
    }
}

static lh_copy_request copy_request(const char **source, const char *target) {
    lh_copy_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.sources = source;
    request.source_count = 1;
    request.target = target;
    return request;
}

static void use_null(lh_client client) {
    const lh_client none = {0};
    EXPECT(LH_USAGE, lh_client_open(NULL, NULL));
    EXPECT(LH_USAGE, lh_copy_start(client, NULL, NULL));
    lh_transfer transfer;
    EXPECT(LH_USAGE, lh_copy_start(client, NULL, &transfer));
    EXPECT(LH_USAGE, lh_copy_start(none, NULL, &transfer));
    expect_text(__LINE__, "no open client");
    lh_copy_request copy;
    memset(&copy, 0, sizeof copy);
    EXPECT(LH_USAGE, lh_copy(client, &copy, NULL));
    expect_text(__LINE__, "lh_copy_request.size is 0");
    copy.size = sizeof copy + 8;
    EXPECT(LH_USAGE, lh_copy(client, &copy, NULL));
    copy.size = sizeof copy;
    EXPECT(LH_USAGE, lh_copy(client, &copy, NULL));
    copy.source_count = 1;
    EXPECT(LH_USAGE, lh_copy(client, &copy, NULL));
    const char *source = NULL;
    copy.sources = &source;
    EXPECT(LH_USAGE, lh_copy(client, &copy, NULL));
    lh_files files;
    EXPECT(LH_USAGE, lh_files_open(client, NULL, 0, &files));
    EXPECT(LH_USAGE, lh_files_open(client, "lh://x/", 0, NULL));
    lh_stream stream;
    lh_stream_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    EXPECT(LH_USAGE, lh_stream_open(client, &request, &stream));
    expect_text(__LINE__, "exactly one");
    request.to = "lh://x/y";
    request.frames = 7;
    EXPECT(LH_USAGE, lh_stream_open(client, &request, &stream));
    expect_text(__LINE__, "frames is 7");
    request.frames = LH_FIXED;
    EXPECT(LH_USAGE, lh_stream_open(client, &request, &stream));
    request.frames = LH_LINES;
    request.rate = "fast";
    EXPECT(LH_USAGE, lh_stream_open(client, &request, &stream));
    expect_text(__LINE__, "rate is fast");
}

static void use_wrong_handles(lh_client client, const char *host) {
    lh_files files;
    EXPECT(LH_OK, lh_files_open(client, host, 1, &files));
    const lh_reader wrong = {files.id};
    uint64_t bytes;
    EXPECT(LH_USAGE, lh_reader_size(wrong, &bytes));
    expect_text(__LINE__, "no open reader");
    EXPECT(LH_USAGE, lh_reader_close(wrong));
    const lh_transfer never = {1234567};
    EXPECT(LH_USAGE, lh_transfer_wait(never, 0, NULL));
    EXPECT(LH_USAGE, lh_transfer_cancel(never));

    lh_writer writer;
    EXPECT(LH_OK, lh_writer_create(files, "/x", 1, &writer));
    EXPECT(LH_USAGE, lh_writer_write(writer, 0, NULL, 4));
    EXPECT(LH_OK, lh_writer_write(writer, 0, "1234", 4));
    EXPECT(LH_OK, lh_files_close(files));
    // open files do not need the connection's handle
    EXPECT(LH_OK, lh_writer_commit(writer));
    EXPECT(LH_OK, lh_writer_close(writer));
    EXPECT(LH_USAGE, lh_writer_close(writer));
    EXPECT(LH_USAGE, lh_writer_commit(writer));
    EXPECT(LH_USAGE, lh_files_stat(files, "/x", 1, NULL));
    lh_item item;
    EXPECT(LH_USAGE, lh_files_stat(files, "/x", 1, &item));

    EXPECT(LH_OK, lh_files_open(client, host, 0, &files));
    EXPECT(LH_OPEN, lh_files_stat(files, "/absent", 1, &item));
    EXPECT(LH_USAGE, lh_files_list(files, "/", NULL, NULL));
    lh_reader reader;
    EXPECT(LH_OK, lh_reader_open(files, "/x", &reader));
    size_t got;
    EXPECT(LH_USAGE, lh_reader_read(reader, 0, NULL, 4, &got));
    EXPECT(LH_USAGE, lh_reader_read(reader, 0, &item, 4, NULL));
    EXPECT(LH_OK, lh_reader_read(reader, 0, NULL, 0, &got));
    EXPECT(LH_OK, lh_reader_read(reader, 100, &item, 4, &got));
    if (got != 0) {
        exit(1);
    }
    // a connection that may only read
    EXPECT(LH_PERMISSION, lh_writer_create(files, "/y", 1, &writer));
    EXPECT(LH_OK, lh_reader_close(reader));
    EXPECT(LH_OK, lh_files_close(files));
}

struct calls {
    lh_client client;
    const lh_copy_request *other;
    lh_transfer transfer;
    lh_code waited;
    lh_code copied;
    lh_code closed;
    lh_code received;
    lh_code finished;
    int count;
};

static int32_t wait_within(void *data, const lh_progress *progress) {
    struct calls *calls = data;
    (void)progress;
    calls->count++;
    calls->waited = lh_transfer_wait(calls->transfer, -1, NULL);
    calls->copied = lh_copy(calls->client, calls->other, NULL);
    lh_transfer other;
    EXPECT(LH_OK, lh_copy_start(calls->client, calls->other, &other));
    calls->closed = lh_transfer_close(other);
    // refused before the handle is looked at
    const lh_stream none = {0};
    char buffer[1];
    size_t len;
    calls->received = lh_stream_receive(none, buffer, sizeof buffer, &len);
    expect_text(__LINE__, "a callback cannot wait");
    calls->finished = lh_stream_finish(none, NULL);
    expect_text(__LINE__, "a callback cannot wait");
    return 1;
}

static void use_callbacks(lh_client client, const char *host, const char *folder) {
    char large[4096], target[4096];
    snprintf(large, sizeof large, "%s/large", folder);
    snprintf(target, sizeof target, "%slarge", host);
    FILE *file = fopen(large, "w");
    uint64_t state = 1;
    for (int nth = 0; file && nth < 1 << 19; nth++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        fwrite(&state, sizeof state, 1, file);
    }
    if (!file || fclose(file) != 0) {
        exit(1);
    }
    const char *source = large;
    char never[4200];
    snprintf(never, sizeof never, "%snever", host);
    const lh_copy_request other = copy_request(&source, never);
    struct calls calls = {client, &other, {0}, LH_OK, LH_OK, LH_OK, LH_OK, LH_OK, 0};
    lh_copy_request request = copy_request(&source, target);
    request.progress = wait_within;
    request.data = &calls;
    request.rate = "2Mb/s";
    // the callback needs a transfer; any open one will do
    EXPECT(LH_OK, lh_copy_start(client, &request, &calls.transfer));
    lh_summary summary;
    EXPECT(LH_INTERRUPTED, lh_transfer_wait(calls.transfer, -1, &summary));
    if (calls.count != 1 || calls.waited != LH_USAGE || calls.copied != LH_USAGE || calls.closed != LH_PENDING) {
        fprintf(stderr, "%d calls, %d, %d, %d\n", calls.count, (int)calls.waited, (int)calls.copied, (int)calls.closed);
        exit(1);
    }
    EXPECT(LH_OK, lh_transfer_close(calls.transfer));

    request.progress = NULL;
    lh_transfer transfer;
    EXPECT(LH_OK, lh_copy_start(client, &request, &transfer));
    EXPECT(LH_PENDING, lh_transfer_wait(transfer, 0, NULL));
    EXPECT(LH_OK, lh_transfer_close(transfer));
    EXPECT(LH_USAGE, lh_transfer_close(transfer));
}

static void *receive(void *data) {
    const lh_stream *stream = data;
    char buffer[10];
    size_t len;
    EXPECT(LH_INTERRUPTED, lh_stream_receive(*stream, buffer, sizeof buffer, &len));
    return NULL;
}

struct receiving {
    lh_stream stream;
    atomic_int begun;
};

static void *receive_once(void *data) {
    struct receiving *receiving = data;
    atomic_store(&receiving->begun, 1);
    char buffer[10];
    size_t len;
    const lh_code code = lh_stream_receive(receiving->stream, buffer, sizeof buffer, &len);
    // on a busy machine, it begins after the close
    if (code != LH_INTERRUPTED && code != LH_USAGE) {
        fprintf(stderr, "%d: %s\n", (int)code, lh_error_message());
        exit(1);
    }
    return NULL;
}

static void use_streams(lh_client client, const char *host) {
    char pipe[4096];
    snprintf(pipe, sizeof pipe, "%spipe", host);
    lh_stream_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.from = pipe;
    request.no_udp = 1;
    lh_stream stream;
    EXPECT(LH_OK, lh_stream_open(client, &request, &stream));
    EXPECT(LH_USAGE, lh_stream_send(stream, "x", 1));
    expect_text(__LINE__, "other direction");
    pthread_t thread;
    if (pthread_create(&thread, NULL, receive, &stream) != 0) {
        exit(1);
    }
    EXPECT(LH_OK, lh_stream_cancel(stream));
    pthread_join(thread, NULL);
    EXPECT(LH_OK, lh_stream_close(stream));

    // a close ends the wait of another thread, too
    EXPECT(LH_OK, lh_stream_open(client, &request, &stream));
    struct receiving receiving = {stream, 0};
    if (pthread_create(&thread, NULL, receive_once, &receiving) != 0) {
        exit(1);
    }
    const struct timespec moment = {0, 100000000};
    while (!atomic_load(&receiving.begun)) {
        nanosleep(&moment, NULL);
    }
    nanosleep(&moment, NULL);
    EXPECT(LH_OK, lh_stream_close(stream));
    pthread_join(thread, NULL);

    // a broken connection must not end the process by SIGPIPE
    request.from = NULL;
    request.to = "lh://127.0.0.1:1/x";
    EXPECT(LH_OK, lh_stream_open(client, &request, &stream));
    lh_code code = LH_OK;
    for (int nth = 0; nth < 1000000 && code == LH_OK; nth++) {
        code = lh_stream_send(stream, pipe, 1000);
    }
    if (code != LH_NETWORK) {
        fprintf(stderr, "%d: %s\n", (int)code, lh_error_message());
        exit(1);
    }
    EXPECT(LH_NETWORK, lh_stream_finish(stream, NULL));
    EXPECT(LH_OK, lh_stream_close(stream));
}

static void use_clear_text(const char *folder) {
    char token[4096];
    snprintf(token, sizeof token, "%s/token", folder);
    FILE *file = fopen(token, "w");
    if (!file || fputs("secret", file) < 0 || fclose(file) != 0) {
        exit(1);
    }
    lh_client_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.scheduler = "http://scheduler.example.org:4811";
    request.scheduler_token_file = token;
    lh_client client;
    EXPECT(LH_OK, lh_client_open(&request, &client));
    lh_reservation reservation;
    EXPECT(LH_USAGE, lh_reservation_open(client, 1, &reservation, NULL));
    expect_text(__LINE__, "clear text");
    EXPECT(LH_OK, lh_client_close(client));
}

static void use_in_child(lh_client client) {
    const pid_t child = fork();
    if (child == 0) {
        lh_files files;
        EXPECT(LH_USAGE, lh_files_open(client, "lh://127.0.0.1:1/", 0, &files));
        expect_text(__LINE__, "parent");
        lh_client own;
        EXPECT(LH_OK, lh_client_open(NULL, &own));
        EXPECT(LH_OK, lh_client_close(own));
        _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "the child ended with %d\n", status);
        exit(1);
    }
}

int main(int count, char **words) {
    if (count != 5 || lh_error_code() != LH_OK || *lh_error_message() || !*lh_version()) {
        return 1;
    }
    lh_client_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.pin = words[2];
    request.key = words[3];
    lh_client client;
    EXPECT(LH_OK, lh_client_open(&request, &client));
    use_null(client);
    use_wrong_handles(client, words[1]);
    use_callbacks(client, words[1], words[4]);
    use_streams(client, words[1]);
    use_clear_text(words[4]);
    use_in_child(client);
    EXPECT(LH_OK, lh_client_close(client));
    EXPECT(LH_USAGE, lh_client_close(client));
    printf("all are errors\n");
    return 0;
}
