// Checks that messages have the octets that programs in all languages share: vectors VECTORS.

#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "lighthaul.hpp"

namespace {

std::string hex(const std::string &octets) {
  std::string text;
  for (const unsigned char octet : octets) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", octet);
    text += digits;
  }
  return text;
}

std::string octets(const std::string &hex) {
  std::string found;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2) found += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
  return found;
}

template <typename T>
void set_array(lighthaul::Message &message, const std::string &field, std::istream &words) {
  std::vector<T> numbers;
  for (std::string word; words >> word;) {
    if constexpr (std::is_floating_point_v<T>) {
      numbers.push_back(static_cast<T>(std::stod(word)));
    } else if constexpr (std::is_unsigned_v<T>) {
      numbers.push_back(static_cast<T>(std::stoull(word)));
    } else {
      numbers.push_back(static_cast<T>(std::stoll(word)));
    }
  }
  message.set(field.c_str(), numbers);
}

void set_array(lighthaul::Message &message, const std::string &field, const std::string &text) {
  std::istringstream words(text);
  std::string type;
  words >> type;
  if (type == "u8") set_array<std::uint8_t>(message, field, words);
  if (type == "u16") set_array<std::uint16_t>(message, field, words);
  if (type == "u32") set_array<std::uint32_t>(message, field, words);
  if (type == "u64") set_array<std::uint64_t>(message, field, words);
  if (type == "i8") set_array<std::int8_t>(message, field, words);
  if (type == "i16") set_array<std::int16_t>(message, field, words);
  if (type == "i32") set_array<std::int32_t>(message, field, words);
  if (type == "i64") set_array<std::int64_t>(message, field, words);
  if (type == "f32") set_array<float>(message, field, words);
  if (type == "f64") set_array<double>(message, field, words);
}

void set(lighthaul::Message &message, const std::string &kind, const std::string &field, const std::string &value) {
  if (kind == "bool") message.set(field.c_str(), value == "true");
  if (kind == "unsigned") message.set(field.c_str(), static_cast<std::uint64_t>(std::stoull(value)));
  if (kind == "signed") message.set(field.c_str(), static_cast<std::int64_t>(std::stoll(value)));
  if (kind == "float") message.set(field.c_str(), std::stod(value));
  if (kind == "text") message.set(field.c_str(), value);
  if (kind == "bytes") {
    const std::string raw = octets(value);
    message.set_bytes(field.c_str(), raw.data(), raw.size());
  }
  if (kind == "array") set_array(message, field, value);
}

// Returns the text up to the first space, and removes it.
std::string taken(std::string &text) {
  const std::size_t end = text.find(' ');
  const std::string word = text.substr(0, end);
  text = end == std::string::npos ? "" : text.substr(end + 1);
  return word;
}

}  // namespace

int main(int count, char **words) {
  if (count != 2) return 1;
  std::ifstream file(words[1]);
  std::unique_ptr<lighthaul::Schema> schema;
  std::unique_ptr<lighthaul::Message> message;
  int checked = 0;
  try {
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      const std::string kind = taken(line);
      if (kind == "schema") {
        schema = std::make_unique<lighthaul::Schema>(line);
        message = std::make_unique<lighthaul::Message>(*schema);
      } else if (kind == "octets") {
        const std::string packed = message->pack();
        const lighthaul::Message again(*schema, packed);
        if (hex(packed) != line || again.pack() != packed) {
          std::cerr << hex(packed) << " instead of " << line << '\n';
          return 1;
        }
        checked++;
      } else if (kind != "number" && kind != "announcement") {
        const std::string field = taken(line);
        set(*message, kind, field, line);
      }
    }
  } catch (const lighthaul::Error &error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  std::cout << checked << " messages\n";
}
