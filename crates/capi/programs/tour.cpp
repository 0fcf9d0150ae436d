// The same as tour.c in C++, with exceptions: tour lh://HOST:PORT/ PIN KEY FOLDER.

#include <fstream>
#include <iostream>

#include "lighthaul.hpp"

namespace {

void use_files(const lighthaul::Client &client, const std::string &host) {
  auto files = client.files(host, true);
  std::cout << files.open("/there.txt").read(6, 16);
  auto writer = files.create("/notes.txt");
  writer.write(0, "notes");
  writer.commit();
  for (const auto &item : files.list("/")) std::cout << item.name << ' ' << item.info.bytes << '\n';
  files.make_directory("/new");
  files.rename("/notes.txt", "/new/notes.txt");
  files.copy("/new/notes.txt", "/new/copy.txt");
  if (files.open("/new/copy.txt").read(0, 16) != "notes") std::cout << "the copy differs\n";
  {
    // a file that is open for writing keeps its directory
    auto appended = files.append("/new/copy.txt");
    appended.write(appended.size(), "!");
    appended.commit();
  }
  files.copy("/new/copy.txt", "/new/notes.txt", true);
  if (files.stat("/new/notes.txt").bytes != 6) std::cout << "the copy has not replaced the file\n";
  files.remove("/new/copy.txt");
  files.remove("/new/notes.txt");
  files.remove_directory("/new");
  try {
    files.open("/absent");
  } catch (const lighthaul::Error &error) {
    std::cout << error.code() << ' ' << error.what() << '\n';
  }
}

void use_streams(const lighthaul::Client &client, const std::string &pipe) {
  lighthaul::StreamOptions options;
  options.udp = false;
  auto reader = client.stream_from(pipe, options);
  auto writer = client.stream_to(pipe, options);
  writer.send("one");
  writer.send(std::string(2000, 'x').substr(0, 1400));
  writer.finish();
  while (auto message = reader.receive()) std::cout << message->size() << " bytes\n";
}

void cancel(const lighthaul::Client &client, const lighthaul::Copy &copy) {
  auto endless = copy;
  endless.rate = "1Mb/s";
  struct Enough {};
  endless.progress = [](const lh_progress &) -> bool { throw Enough(); };
  auto transfer = client.start(endless);
  try {
    transfer.wait();
    std::cout << "not cancelled\n";
  } catch (Enough) {
    std::cout << "the exception of the function arrived\n";
  }
}

void tour(const std::string &host, const lighthaul::Settings &settings, const std::string &folder) {
  const lighthaul::Client client(settings);
  const auto here = folder + "/here.txt";
  std::ofstream(here) << "hello world\n";
  auto summary = client.copy(here, host + "there.txt");
  std::cout << summary.bytes << " bytes\n";
  use_files(client, host);
  use_streams(client, host + "pipe");

  const auto large = folder + "/large";
  std::ofstream(large) << std::string(4 << 20, 'x');
  lighthaul::Copy copy;
  copy.sources = {large};
  copy.target = host + "large";
  cancel(client, copy);
  auto transfer = client.start(copy);
  auto moved = std::move(transfer);
  std::cout << moved.wait().bytes << " bytes, " << moved.failures().size() << " failures\n";
}

}  // namespace

int main(int count, char **words) {
  if (count != 5) return 1;
  lighthaul::Settings settings;
  settings.pin = words[2];
  settings.key = words[3];
  try {
    tour(words[1], settings, words[4]);
  } catch (const lighthaul::Error &error) {
    std::cerr << error.what() << " (" << error.code() << "); " << error.remedy() << '\n';
    return error.code();
  }
}
