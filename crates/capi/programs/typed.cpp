// Typed messages with exceptions, and a reservation: typed lh://HOST:PORT/ PIN KEY FOLDER SCHEDULER TOKEN_FILE.

#include <future>
#include <iostream>
#include <numeric>

#include "lighthaul.hpp"

namespace {

void send_poses(const lighthaul::Client &client, const std::string &pipe) {
  lighthaul::StreamOptions options;
  options.udp = false;
  const lighthaul::Schema pose("Pose { time: f64, joints: [f64], valid: bool, image: bytes, offset: i16 }");
  {
    auto reader = client.typed_from(pipe, pose, options);
    auto writer = client.typed_to(pipe, pose, options);
    lighthaul::Message sent(pose);
    sent.set("time", 2.5).set("valid", true).set("offset", -3).set_bytes("image", "abc", 3);
    sent.set("joints", std::vector<double>(100, 0.25));
    writer.send(sent);
    writer.finish();
    while (auto got = reader.receive()) {
      const auto joints = got->array<double>("joints");
      std::cout << joints.size() << " joints, sum " << std::accumulate(joints.begin(), joints.end(), 0.0) << ", offset "
                << got->signed_number("offset") << ", image " << got->bytes("image") << '\n';
      const lighthaul::Message again(pose, got->pack());
      std::cout << again.floating("time") << ' ' << again.boolean("valid") << '\n';
    }
  }
  const lighthaul::Schema note("Note { text: text }");
  lighthaul::Message noted(note);
  noted.set("text", std::string("a\0b", 3));
  std::cout << lighthaul::Message(note, noted.pack()).bytes("text").size() << " bytes of text\n";
  try {
    client.files(pipe.substr(0, pipe.rfind('/') + 1), true).remove(std::string("notes\0txt", 9));
  } catch (const lighthaul::Error &error) {
    std::cout << error.code() << ' ' << error.what() << '\n';
  }
  const lighthaul::Schema other("Pose { time: f64, joints: [f32], valid: bool, image: bytes, offset: i16 }");
  auto reader = client.typed_from(pipe, other, options);
  auto writer = client.typed_to(pipe, pose, options);
  lighthaul::Message sent(pose);
  sent.set("time", 0.0).set("valid", false).set("offset", 0).set_bytes("image", "", 0);
  sent.set("joints", std::vector<double>());
  writer.send(sent);
  try {
    reader.receive();
  } catch (const lighthaul::Error &error) {
    std::cout << error.code() << ' ' << error.what() << '\n';
  }
}

void reserve(const lighthaul::Client &client) {
  lighthaul::Capacity capacity;
  capacity.from = "here";
  capacity.to = "far";
  capacity.rate_max = "100Mb/s";
  capacity.hold = std::chrono::minutes(10);
  auto made = client.reserve(capacity);
  made.commit();
  // it starts at once, so it may be active by now
  const auto state = made.info().state;
  std::cout << "promised: " << (state >= LH_COMMITTED && state <= LH_ACTIVE) << ", " << made.info().rate_bps << " b/s\n";
  made.wait();
  std::cout << "active: " << (made.info().state == LH_ACTIVE) << '\n';
  auto same = client.reservation(made.info().number);
  same.release("the work is done");
  made.refresh();
  std::cout << "released: " << (made.info().state == LH_RELEASED) << '\n';

  capacity.start = std::chrono::system_clock::now().time_since_epoch() + std::chrono::hours(1);
  auto later = client.reserve(capacity);
  later.commit();
  std::cout << "started: " << later.wait_for(std::chrono::milliseconds(50)) << '\n';
  // a wait without a limit holds up no other one, and ends with the handle
  lh_code code = LH_OK;
  for (int tries = 1; code != LH_INTERRUPTED && tries <= 10; tries++) {
    auto waited = client.reservation(later.info().number);
    auto waiting = std::async(std::launch::async, [&waited]() -> lh_code {
      try {
        waited.wait();
      } catch (const lighthaul::Error &error) {
        return error.code();
      }
      return LH_OK;
    });
    // a thread that begins later finds the handle closed
    for (int nth = 0; nth < 5; nth++) {
      if (waited.wait_for(std::chrono::milliseconds(10 * tries))) std::cout << "it has started\n";
    }
    waited.close();
    code = waiting.get();
  }
  std::cout << "the wait ended: " << code << '\n';
  later.cancel("not needed");
  std::cout << "canceled: " << (later.info().state == LH_TERMINATED) << '\n';
}

}  // namespace

int main(int count, char **words) {
  if (count != 7) return 1;
  lighthaul::Settings settings;
  settings.pin = words[2];
  settings.key = words[3];
  settings.known_hosts = std::string(words[4]) + "/known_hosts";
  settings.scheduler = words[5];
  settings.scheduler_token_file = words[6];
  try {
    const lighthaul::Client client(settings);
    send_poses(client, std::string(words[1]) + "pipe");
    reserve(client);
  } catch (const lighthaul::Error &error) {
    std::cerr << error.what() << " (" << error.code() << "); " << error.remedy() << '\n';
    return error.code();
  }
}
