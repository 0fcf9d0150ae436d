// Copies one file over UDT, for `cargo xtask bench`: `receive PORT FILE BYTES` or `send HOST PORT FILE`.

#include <arpa/inet.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <udt/udt.h>

namespace {

int report_error(const char *what) {
    std::fprintf(stderr, "%s: %s\n", what, UDT::getlasterror().getErrorMessage());
    return 1;
}

// Opens a socket with windows of four times the bandwidth-delay product of 5 Gb/s and 115 ms.
UDTSOCKET open_socket() {
    UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
    int window_packets = 200000, buffer_bytes = 256 << 20, udp_bytes = 8 << 20, mss = 1500;
    UDT::setsockopt(socket, 0, UDT_MSS, &mss, sizeof mss);
    UDT::setsockopt(socket, 0, UDT_FC, &window_packets, sizeof window_packets);
    UDT::setsockopt(socket, 0, UDT_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    UDT::setsockopt(socket, 0, UDT_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    UDT::setsockopt(socket, 0, UDP_SNDBUF, &udp_bytes, sizeof udp_bytes);
    UDT::setsockopt(socket, 0, UDP_RCVBUF, &udp_bytes, sizeof udp_bytes);
    return socket;
}

sockaddr_in address(const char *host, const char *port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
    inet_pton(AF_INET, host, &at.sin_addr);
    return at;
}

int receive(const char *port, const char *path, int64_t bytes) {
    UDTSOCKET listener = open_socket();
    sockaddr_in at = address("0.0.0.0", port);
    if (UDT::bind(listener, reinterpret_cast<sockaddr *>(&at), sizeof at) == UDT::ERROR ||
        UDT::listen(listener, 1) == UDT::ERROR)
        return report_error("listen");
    UDTSOCKET socket = UDT::accept(listener, nullptr, nullptr);
    if (socket == UDT::INVALID_SOCK)
        return report_error("accept");
    std::fstream file(path, std::ios::out | std::ios::binary | std::ios::trunc);
    int64_t offset = 0;
    if (UDT::recvfile(socket, file, offset, bytes) != bytes)
        return report_error("receive");
    file.flush();
    char done = 1;
    UDT::send(socket, &done, 1, 0);
    UDT::close(socket);
    UDT::close(listener);
    return 0;
}

int send(const char *host, const char *port, const char *path) {
    UDTSOCKET socket = open_socket();
    sockaddr_in at = address(host, port);
    if (UDT::connect(socket, reinterpret_cast<sockaddr *>(&at), sizeof at) == UDT::ERROR)
        return report_error("connect");
    std::fstream file(path, std::ios::in | std::ios::binary);
    file.seekg(0, std::ios::end);
    int64_t bytes = file.tellg(), offset = 0;
    file.seekg(0);
    if (UDT::sendfile(socket, file, offset, bytes) != bytes)
        return report_error("send");
    char done = 0;
    if (UDT::recv(socket, &done, 1, 0) != 1)
        return report_error("the end");
    UDT::close(socket);
    return 0;
}

} // namespace

int main(int count, char **words) {
    UDT::startup();
    int status = 2;
    if (count == 5 && !std::strcmp(words[1], "receive"))
        status = receive(words[2], words[3], std::atoll(words[4]));
    else if (count == 5 && !std::strcmp(words[1], "send"))
        status = send(words[2], words[3], words[4]);
    else
        std::fprintf(stderr, "usage: udt receive PORT FILE BYTES | udt send HOST PORT FILE\n");
    UDT::cleanup();
    return status;
}
