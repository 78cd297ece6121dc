// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs a program in a terminal of its own, and types into it.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace hone::testing {

// One thread at a time. The program is killed with the object.
class Terminal {
 public:
  // argv[0] is a path; the variables are added to the environment. 24 rows of 200 columns.
  Terminal(const std::vector<std::string>& argv,
           const std::vector<std::pair<std::string, std::string>>& variables);
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  void Type(const std::string& keys) const;
  void Signal(int number) const;
  // Waits until the terminal hands over lines (cooked), or every key. False after a minute.
  bool WaitForModes(bool cooked);
  // Makes it hand over lines, behind the program's back.
  bool MakeCooked() const;
  // Waits until text appears behind what was found before. False after a minute, or if the program
  // ends without it.
  bool Find(const std::string& text);
  // What came since the last text was found.
  std::string Rest() const { return screen_.substr(found_); }
  // Everything, for messages.
  const std::string& screen() const { return screen_; }
  // Waits for the end: the exit code, 128 + signal if it was killed, -1 after a minute.
  int Wait();

 private:
  // Reads what is there; false at the end.
  bool Read();

  pid_t pid_ = -1;
  int fd_ = -1;
  std::string screen_;
  std::size_t found_ = 0;
};

}  // namespace hone::testing
