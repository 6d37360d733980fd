// SPDX-License-Identifier: Apache-2.0
// Text from a server, made safe to show. A server chooses the names, notes and messages that it sends: raw, they could
// move a terminal's cursor, change its title, colour or direction, or add lines that look like the program's own.
// Ordinary text, in any language, stays as it is. Applying a function twice changes nothing.
#ifndef VICINAL_CLIENT_CPP_PRINTABLE_H_
#define VICINAL_CLIENT_CPP_PRINTABLE_H_

#include <string>
#include <string_view>

namespace google::protobuf {
class Message;
}

namespace vicinal::client {

// One line of printable UTF-8. Escaped: C0 and C1 controls (ESC, BEL, line breaks), DEL, bidirectional marks, invisible
// characters, line and paragraph separators, and bytes that are not UTF-8. "\n", "\r" and "\t" are named, others are
// "\x1b" (below U+0080, and bytes that are not UTF-8) or "\u202e".
std::string Printable(std::string_view text);

// The same for a JSON document: characters that Printable escapes become JSON escapes ("\u001b" and the like), which
// parse to the same strings. Spaces and line breaks between values stay. `json` must be valid JSON in UTF-8.
std::string PrintableJson(std::string_view json);

// Applies Printable to every string field of the message and of the messages in it. Fields of type bytes stay.
void MakePrintable(google::protobuf::Message* message);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_PRINTABLE_H_
