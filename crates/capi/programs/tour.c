// Copies a file to another host and back, reads a range of it there, and lists the directory. Usage: tour
// lh://HOST:PORT/ PIN KEY FOLDER, where FOLDER is a directory for the files of this program.

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lighthaul.h"

static void check(const char *what, lh_code code) {
    if (code != LH_OK) {
        fprintf(stderr, "%s: %s (%d); %s\n", what, lh_error_message(), (int)code, lh_error_remedy());
        exit(code > 0 ? (int)code : 1);
    }
}

static int32_t show_progress(void *data, const lh_progress *progress) {
    uint64_t *latest = data;
    *latest = progress->done;
    return 0; // another number cancels the copy
}

static int32_t show_item(void *data, const lh_item *item) {
    (void)data;
    printf("%s %" PRIu64 "\n", item->name, item->bytes);
    return 0;
}

static void copy(lh_client client, const char *source, const char *target) {
    uint64_t latest = 0;
    lh_copy_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.sources = &source;
    request.source_count = 1;
    request.target = target;
    request.progress = show_progress;
    request.data = &latest;
    lh_transfer transfer;
    check("start", lh_copy_start(client, &request, &transfer));
    lh_summary summary;
    check("wait", lh_transfer_wait(transfer, -1, &summary));
    check("close", lh_transfer_close(transfer));
    // a small file may arrive before any progress is shown
    printf("%" PRIu64 " bytes, %s\n", summary.bytes, latest > summary.bytes ? "too many shown" : "done");
}

static void use_files(lh_client client, const char *host) {
    lh_files files;
    check("files", lh_files_open(client, host, 1, &files));
    lh_reader reader;
    check("open", lh_reader_open(files, "/there.txt", &reader));
    char buffer[16];
    size_t len;
    check("read", lh_reader_read(reader, 6, buffer, sizeof buffer, &len));
    printf("%.*s\n", (int)len, buffer);
    check("close", lh_reader_close(reader));

    lh_writer writer;
    check("create", lh_writer_create(files, "/notes.txt", 1, &writer));
    check("write", lh_writer_write(writer, 0, "notes", 5));
    check("commit", lh_writer_commit(writer));
    check("close", lh_writer_close(writer));
    lh_item item;
    check("stat", lh_files_stat(files, "/notes.txt", 1, &item));
    printf("kind %d\n", (int)item.kind);
    check("list", lh_files_list(files, "/", show_item, NULL));
    check("close", lh_files_close(files));
}

static void use_streams(lh_client client, const char *pipe) {
    lh_stream_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.no_udp = 1;
    request.from = pipe;
    lh_stream reader;
    check("stream", lh_stream_open(client, &request, &reader));
    request.from = NULL;
    request.to = pipe;
    lh_stream writer;
    check("stream", lh_stream_open(client, &request, &writer));
    check("send", lh_stream_send(writer, "one", 3));
    check("send", lh_stream_send(writer, "message", 7));
    lh_report report;
    check("finish", lh_stream_finish(writer, &report));
    check("close", lh_stream_close(writer));

    char buffer[5];
    size_t len;
    check("receive", lh_stream_receive(reader, buffer, sizeof buffer, &len));
    printf("%.*s of %" PRIu64 "\n", (int)len, buffer, report.messages);
    if (lh_stream_receive(reader, buffer, sizeof buffer, &len) == LH_USAGE) {
        printf("%d bytes are needed\n", (int)len);
    }
    char large[1500];
    check("receive", lh_stream_receive(reader, large, sizeof large, &len));
    printf("%.*s\n", (int)len, large);
    if (lh_stream_receive(reader, large, sizeof large, &len) == LH_END) {
        printf("end\n");
    }
    check("close", lh_stream_close(reader));
}

int main(int count, char **words) {
    if (count != 5) {
        return 1;
    }
    const char *host = words[1], *folder = words[4];
    lh_client_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.pin = words[2];
    request.key = words[3];
    lh_client client;
    check("client", lh_client_open(&request, &client));

    char here[4096], back[4096], there[4096], pipe[4096];
    snprintf(here, sizeof here, "%s/here.txt", folder);
    snprintf(back, sizeof back, "%s/back.txt", folder);
    snprintf(there, sizeof there, "%sthere.txt", host);
    snprintf(pipe, sizeof pipe, "%spipe", host);
    FILE *file = fopen(here, "w");
    if (!file || fputs("hello world\n", file) < 0 || fclose(file) != 0) {
        return 1;
    }
    copy(client, here, there);
    copy(client, there, back);
    use_files(client, host);
    use_streams(client, pipe);
    check("close", lh_client_close(client));
    return 0;
}
