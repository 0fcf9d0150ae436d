// Sends a file of the page cache in several ways, and prints the rate and the processor time of each side.
// Tells whether zero-copy sending would pay on this kernel and card:
//
//   cc -O2 -msse4.2 -o /tmp/zerocopy bench/zerocopy.c
//   /tmp/zerocopy receive PORT                            on the receiving host
//   /tmp/zerocopy send HOST PORT FILE SECONDS WAY...      on the sending host
//
// Ways: tcp-copy (read and send), tcp-sendfile, tcp-zerocopy (read, MSG_ZEROCOPY), udp-copy (read, batches of
// UDP_SEGMENT), udp-zerocopy. With "+sum", the sender also reads each byte for a checksum, as a verified copy does.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <nmmintrin.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, BLOCKS = 32, SEGMENT = 1440, BATCH = SEGMENT * 44, BATCHES = BLOCK / BATCH };

static uint8_t blocks[BLOCKS][BLOCK] __attribute__((aligned(4096)));
static unsigned issued, completed, copied;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double processor_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct timeval all[2] = {usage.ru_utime, usage.ru_stime};
    return (double)(all[0].tv_sec + all[1].tv_sec) + (double)(all[0].tv_usec + all[1].tv_usec) / 1e6;
}

static struct sockaddr_in address(const char *host, const char *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &at.sin_addr) != 1)
        fail("address");
    return at;
}

static void set(int socket, int level, int option, int value) {
    if (setsockopt(socket, level, option, &value, sizeof value))
        fail("setsockopt");
}

// Three interleaved sums, as fast as the instruction allows.
static uint64_t sum_of(const uint8_t *bytes, size_t len) {
    uint64_t sums[3] = {0, 0, 0};
    const uint64_t *words = (const uint64_t *)bytes;
    for (size_t nth = 0; nth + 3 <= len / 8; nth += 3)
        for (int lane = 0; lane < 3; lane++)
            sums[lane] = _mm_crc32_u64(sums[lane], words[nth + (size_t)lane]);
    return sums[0] ^ sums[1] ^ sums[2];
}

// Takes notifications of the kernel, until at most `open_max` sends are open.
static void settle(int socket, unsigned open_max) {
    while (issued - completed > open_max) {
        uint8_t control[128];
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(socket, &message, MSG_ERRQUEUE) < 0) {
            struct pollfd wait = {.fd = socket};
            if (errno != EAGAIN || poll(&wait, 1, 1000) < 0)
                fail("error queue");
            continue;
        }
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        struct sock_extended_err *done = (struct sock_extended_err *)CMSG_DATA(head);
        unsigned sends = done->ee_data - done->ee_info + 1;
        completed += sends;
        copied += done->ee_code == SO_EE_CODE_ZEROCOPY_COPIED ? sends : 0;
    }
}

static void send_all(int socket, const uint8_t *bytes, size_t len, int flags) {
    while (len > 0) {
        ssize_t sent = send(socket, bytes, len, flags);
        if (sent < 0 && errno == ENOBUFS) {
            settle(socket, (issued - completed) / 2);
            continue;
        }
        if (sent < 0)
            fail("send");
        issued += flags & MSG_ZEROCOPY ? 1 : 0;
        bytes += sent;
        len -= (size_t)sent;
    }
}

static void measure(const char *way, const char *host, const char *port, const char *path, double seconds) {
    bool udp = !strncmp(way, "udp", 3), zero = strstr(way, "zerocopy"), file = strstr(way, "sendfile");
    bool sums = strstr(way, "+sum");
    struct sockaddr_in at = address(host, port);
    int socket_fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0), source = open(path, O_RDONLY);
    if (source < 0 || connect(socket_fd, (struct sockaddr *)&at, sizeof at))
        fail(path);
    if (zero)
        set(socket_fd, SOL_SOCKET, SO_ZEROCOPY, 1);
    if (udp) {
        set(socket_fd, SOL_UDP, UDP_SEGMENT, SEGMENT);
        set(socket_fd, SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20);
    }
    issued = completed = copied = 0;
    size_t len = udp ? (size_t)BATCH * BATCHES : BLOCK;
    uint64_t bytes = 0, sum = 0;
    double began = now(), before = processor_seconds();
    for (unsigned nth = 0; now() - began < seconds; nth++) {
        uint8_t *block = blocks[zero ? nth % BLOCKS : 0];
        off_t offset = lseek(source, 0, SEEK_CUR);
        if (zero && nth >= BLOCKS)
            settle(socket_fd, (udp ? BATCHES : 1) * (BLOCKS - 1));
        if (!file || sums) {
            ssize_t got = read(source, block, len);
            if (got < (ssize_t)len) {
                lseek(source, 0, SEEK_SET);
                continue;
            }
            sum ^= sums ? sum_of(block, len) : 0;
        }
        if (file) {
            for (size_t left = len; left > 0;) {
                ssize_t sent = sendfile(socket_fd, source, &offset, left);
                if (sent < 0)
                    fail("sendfile");
                if (sent == 0)
                    offset = 0;
                left -= (size_t)sent;
            }
            lseek(source, offset, SEEK_SET);
        } else if (udp) {
            for (size_t from = 0; from < len; from += BATCH)
                send_all(socket_fd, block + from, BATCH, zero ? MSG_ZEROCOPY : 0);
        } else {
            send_all(socket_fd, block, len, zero ? MSG_ZEROCOPY : 0);
        }
        bytes += len;
    }
    settle(socket_fd, 0);
    double time = now() - began, used = processor_seconds() - before, gigabytes = (double)bytes / 1e9;
    printf("%-18s %6.2f Gb/s  sender %.3f s/GB", way, gigabytes * 8 / time, used / gigabytes);
    if (zero)
        printf("  %u of %u sends were copied by the kernel", copied, completed);
    printf("%s\n", sum == 1 ? "." : "");
    fflush(stdout);
    close(source);
    close(socket_fd);
}

// Reads all that arrives, and reports each connection, and each second of datagrams.
static void receive(const char *port) {
    struct sockaddr_in at = address("0.0.0.0", port);
    int listener = socket(AF_INET, SOCK_STREAM, 0), datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
    set(datagrams, SOL_UDP, UDP_GRO, 1);
    set(datagrams, SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1) ||
        bind(datagrams, (struct sockaddr *)&at, sizeof at))
        fail("bind");
    for (;;) {
        struct pollfd waits[2] = {{.fd = listener, .events = POLLIN}, {.fd = datagrams, .events = POLLIN}};
        poll(waits, 2, -1);
        bool udp = waits[1].revents;
        int from = udp ? datagrams : accept(listener, NULL, NULL);
        struct timeval patience = {.tv_usec = 500000};
        setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        double began = now(), last = began, before = processor_seconds(), bytes = 0;
        for (ssize_t got; (got = recv(from, blocks[0], BLOCK, 0)) > 0; bytes += (double)got)
            last = now();
        printf("%s arrived: %.2f Gb/s  receiver %.3f s/GB\n", udp ? "datagrams" : "stream",
               bytes * 8e-9 / (last - began), (processor_seconds() - before) / bytes * 1e9);
        fflush(stdout);
        if (!udp)
            close(from);
    }
}

int main(int count, char **words) {
    if (count == 3 && !strcmp(words[1], "receive"))
        receive(words[2]);
    if (count < 7 || strcmp(words[1], "send")) {
        fprintf(stderr, "usage: %s receive PORT | send HOST PORT FILE SECONDS WAY...\n", words[0]);
        return 2;
    }
    for (int nth = 6; nth < count; nth++) {
        measure(words[nth], words[2], words[3], words[4], atof(words[5]));
        sleep(1);
    }
    return 0;
}
