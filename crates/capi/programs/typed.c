// Sends typed messages through a pipe, copies with filters and time limits. Usage: typed lh://HOST:PORT/ PIN KEY FOLDER.

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lighthaul.h"

static void check(const char *what, lh_code code) {
    if (code != LH_OK) {
        fprintf(stderr, "%s: %s (%d); %s\n", what, lh_error_message(), (int)code, lh_error_remedy());
        exit(code > 0 ? (int)code : 1);
    }
}

static lh_stream_request to_or_from(const char *to, const char *from) {
    lh_stream_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.no_udp = 1;
    request.to = to;
    request.from = from;
    return request;
}

static void exchange(lh_client client, const char *pipe) {
    lh_schema pose;
    check("schema", lh_schema_parse("Pose { time: f64, joints: [f32], frame: u16, name: text }", &pose));
    lh_stream_request from = to_or_from(NULL, pipe), to = to_or_from(pipe, NULL);
    lh_typed reader, writer;
    check("from", lh_typed_open(client, &from, pose, &reader));
    check("to", lh_typed_open(client, &to, pose, &writer));
    lh_message sent;
    check("create", lh_message_create(pose, &sent));
    const float joints[] = {0.5f, -1.25f, 2.0f};
    check("set", lh_message_set_float(sent, "time", 1.5));
    check("set", lh_message_set_array(sent, "joints", LH_F32, joints, 3));
    check("set", lh_message_set_unsigned(sent, "frame", 7));
    check("set", lh_message_set_text(sent, "name", "arm"));
    if (lh_message_set_unsigned(sent, "frame", 70000) == LH_USAGE) {
        printf("%s\n", lh_error_message());
    }
    check("send", lh_typed_send(writer, sent));
    check("finish", lh_typed_finish(writer, NULL));

    lh_message got;
    check("receive", lh_typed_receive(reader, &got));
    double time;
    float values[8];
    char name[16];
    size_t count, len;
    check("time", lh_message_float(got, "time", &time));
    check("joints", lh_message_array(got, "joints", LH_F32, values, 8, &count));
    check("name", lh_message_bytes(got, "name", name, sizeof name, &len));
    printf("%.*s at %.1f: %d joints, the last is %.2f\n", (int)len, name, time, (int)count, values[count - 1]);
    check("close", lh_message_close(got));
    if (lh_typed_receive(reader, &got) == LH_END) {
        printf("end\n");
    }
    check("close", lh_typed_close(reader));
    check("close", lh_typed_close(writer));
    check("close", lh_message_close(sent));
    check("close", lh_schema_close(pose));
}

static void write_file(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file || fputs("text\n", file) < 0 || fclose(file) != 0) {
        exit(1);
    }
}

static void copy_some(lh_client client, const char *folder, const char *host) {
    char source[4096];
    snprintf(source, sizeof source, "%s/results", folder);
    mkdir(source, 0700);
    write_file(source, "kept.h5");
    write_file(source, "left.tmp");
    const char *sources[] = {source};
    const char *filters[] = {"- *.tmp"};
    lh_copy_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.sources = sources;
    request.source_count = 1;
    request.target = host;
    request.filters = filters;
    request.filter_count = 1;
    request.stall_timeout_s = 30;
    request.time_limit_s = 600;
    lh_transfer transfer;
    check("start", lh_copy_start(client, &request, &transfer));
    lh_summary summary;
    check("wait", lh_transfer_wait(transfer, -1, &summary));
    check("close", lh_transfer_close(transfer));
    printf("%" PRIu64 " entries\n", summary.entries);
}

static void wait_for_a_message(lh_client client, const char *pipe) {
    lh_stream_request from = to_or_from(NULL, pipe);
    lh_stream reader;
    check("from", lh_stream_open(client, &from, &reader));
    char buffer[16];
    size_t len;
    if (lh_stream_receive_within(reader, 50, buffer, sizeof buffer, &len) == LH_PENDING) {
        printf("no message yet\n");
    }
    check("close", lh_stream_close(reader));
}

int main(int count, char **words) {
    if (count != 5) {
        return 1;
    }
    lh_client_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.pin = words[2];
    request.key = words[3];
    lh_client client;
    check("client", lh_client_open(&request, &client));
    char pipe[4096];
    snprintf(pipe, sizeof pipe, "%spipe", words[1]);
    exchange(client, pipe);
    copy_some(client, words[4], words[1]);
    wait_for_a_message(client, pipe);
    check("close", lh_client_close(client));
    return 0;
}
