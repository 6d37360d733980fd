// SPDX-License-Identifier: Apache-2.0
// Who may see the status page, what it shows, and that nothing from outside becomes markup. tests/status runs it over
// sockets.
#include "server/status/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/base/clock.h"
#include "tests/server/fake_engine.h"

namespace vicinal::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StatusSiteTest : public ::testing::Test {
 protected:
  StatusSite& site(bool loopback_only = true) {
    if (!site_) {
      StatusSource source{&engine_, [] { return StateSnapshot(); }, [this] { return latencies_; },
                          [this] { return compiled_kernels_; }, "0.1"};
      site_.emplace(std::move(source), auth_, clock_, loopback_only);
    }
    return *site_;
  }
  HttpResponse Ask(const std::string& method, const std::string& path, const std::string& body = "") {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.host = host_;
    request.cookie = cookie_;
    request.origin = origin_;
    request.body = body;
    return site().Answer(request);
  }
  static std::string HeaderOf(const HttpResponse& response, const std::string& name) {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return "";
  }
  // Signs in and keeps the cookie.
  void SignIn(const std::string& token) {
    const HttpResponse response = Ask("POST", "/login", "token=" + token);
    ASSERT_EQ(response.code, 303);
    const std::string cookie = HeaderOf(response, "Set-Cookie");
    EXPECT_THAT(cookie, HasSubstr("; HttpOnly; SameSite=Strict"));
    cookie_ = "other=1; " + cookie.substr(0, cookie.find(';'));
  }

  testing::FakeEngine engine_;
  FakeClock clock_;
  Auth auth_{"admins", "clients"};
  std::vector<MethodLatency> latencies_;
  CompiledKernelCounts compiled_kernels_;
  std::optional<StatusSite> site_;
  std::string host_ = "localhost:8503", cookie_, origin_;
};

TEST_F(StatusSiteTest, WhoHasNoTokenSeesTheFormOnly) {
  for (const char* const path : {"/", "/graphs/g", "/graphs/none", "/anything"}) {
    const HttpResponse response = Ask("GET", path);
    EXPECT_EQ(response.code, 303) << path;
    EXPECT_EQ(HeaderOf(response, "Location"), "/login");
    EXPECT_THAT(response.body, Not(HasSubstr("Graphs")));
  }
  EXPECT_THAT(Ask("GET", "/login").body, HasSubstr("<form method=\"post\" action=\"/login\">"));
  for (const char* const body : {"token=wrong", "token=", "", "other=clients", "token=%zz", "token=client"}) {
    EXPECT_EQ(Ask("POST", "/login", body).code, 401) << body;
  }
}

TEST_F(StatusSiteTest, ATokenOfAnyRoleSignsInUntilItEnds) {
  SignIn("client%73");
  EXPECT_THAT(Ask("GET", "/").body, HasSubstr("<a href=\"/graphs/g\">g</a>"));
  EXPECT_EQ(Ask("GET", "/login").code, 303);
  clock_.Advance(Sessions::kLife);
  EXPECT_EQ(Ask("GET", "/").code, 303);
  SignIn("admins");
  EXPECT_EQ(Ask("GET", "/").code, 200);
  const HttpResponse out = Ask("POST", "/logout");
  EXPECT_THAT(HeaderOf(out, "Set-Cookie"), HasSubstr("Max-Age=0"));
  EXPECT_EQ(Ask("GET", "/").code, 303) << "the session has ended here, whatever the browser keeps";
}

TEST_F(StatusSiteTest, ATokenThatIsTakenAwayEndsItsSession) {
  SignIn("clients");
  auth_.Replace({"admins", "others", {}});
  EXPECT_EQ(Ask("GET", "/").code, 303);
}

TEST_F(StatusSiteTest, GuessingIsSlow) {
  for (int i = 0; i < Sessions::kWrongPerMinute; ++i) EXPECT_EQ(Ask("POST", "/login", "token=wrong").code, 401);
  EXPECT_EQ(Ask("POST", "/login", "token=clients").code, 429);
  clock_.Advance(std::chrono::minutes(1));
  SignIn("clients");
  for (int i = 0; i < 3 * Sessions::kWrongPerMinute; ++i) SignIn("clients");  // right ones are free
}

TEST_F(StatusSiteTest, AnOpenServerAsksForNoToken) {
  auth_.Replace({});
  const HttpResponse response = Ask("GET", "/");
  EXPECT_EQ(response.code, 200);
  EXPECT_THAT(response.body, Not(HasSubstr("Sign out")));
}

TEST_F(StatusSiteTest, PagesOfOthersCanNeitherReadItNorSignIn) {
  auth_.Replace({});
  host_ = "evil.example.com:8503";
  EXPECT_EQ(Ask("GET", "/").code, 421) << "a name that was made to resolve to this machine";
  for (const char* const host : {"localhost:evil.example.com", "[::1].evil.example.com", "[::1", "[::1]8503",
                                 "127.0.0.1@evil.example.com", ""}) {
    host_ = host;
    EXPECT_EQ(Ask("GET", "/").code, 421) << host;
  }
  for (const char* const host : {"localhost", "127.0.0.1:8503", "[::1]:8503", "[::1]", "localhost:"}) {
    host_ = host;
    EXPECT_EQ(Ask("GET", "/").code, 200) << host;
  }
  host_ = "localhost:8503";
  origin_ = "http://evil.example.com";
  EXPECT_EQ(Ask("POST", "/login", "token=clients").code, 403);
  site_.reset();
  host_ = "gnn.example.com";
  (void)site(/*loopback_only=*/false);
  EXPECT_EQ(Ask("GET", "/").code, 200);
}

TEST_F(StatusSiteTest, EveryAnswerHasThePolicy) {
  const std::pair<const char*, const char*> requests[] = {
      {"GET", "/"}, {"GET", "/login"}, {"GET", "/style.css"}, {"POST", "/x"}, {"DELETE", "/"}};
  for (const auto& [method, path] : requests) {
    const HttpResponse response = Ask(method, path);
    EXPECT_EQ(HeaderOf(response, "Content-Security-Policy"),
              "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'");
    EXPECT_EQ(HeaderOf(response, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(HeaderOf(response, "Cache-Control"), "no-store");
    EXPECT_THAT(response.body, Not(HasSubstr("<script")));
  }
  const HttpResponse refused = Ask("DELETE", "/");
  EXPECT_EQ(refused.code, 405);
  EXPECT_EQ(HeaderOf(refused, "Allow"), "GET, HEAD");
  EXPECT_EQ(Ask("HEAD", "/login").code, 200);
  EXPECT_EQ(Ask("GET", "").code, 400);
}

TEST_F(StatusSiteTest, NothingFromOutsideBecomesMarkup) {
  auth_.Replace({});
  const std::string evil = "<script>alert(1)</script>\"'";
  latencies_ = {{evil, 3, 0.5, 0.1, 0.2}};
  engine_.tuning.note = evil;
  TuningCandidate candidate;
  candidate.setting.kernel = evil;
  candidate.parameters = {{evil, 3}};
  candidate.predicted_seconds = 0.5;
  candidate.measured_seconds = 0.25;
  engine_.tuning.candidates = {candidate};
  GraphSource source;
  source.name = evil;
  ASSERT_TRUE(engine_.PutGraph(std::move(source), {}).ok());
  for (const std::string& path : {std::string("/"), std::string("/graphs/g"), "/graphs/" + evil, "/" + evil}) {
    const HttpResponse response = Ask("GET", path);
    EXPECT_THAT(response.body, Not(HasSubstr("<script"))) << path;
    EXPECT_THAT(response.body, Not(HasSubstr("\"'"))) << path;
  }
}

TEST_F(StatusSiteTest, KernelsOfExpressionsAreShownWhereThereAreSome) {
  auth_.Replace({});
  EXPECT_THAT(Ask("GET", "/").body, Not(HasSubstr("kernels of expressions")));
  compiled_kernels_ = {1234, 2, 1, 1200, 2.5};
  EXPECT_THAT(Ask("GET", "/").body, HasSubstr("1,234 compiled, 2 kept from before, 1 failed, in 2.5 s; 36 loaded now"));
}

TEST_F(StatusSiteTest, AGraphsPageHasItsPicturesAndKernels) {
  auth_.Replace({});
  engine_.picture.side = 2;
  engine_.picture.before = {1, 0, 0, 1};
  engine_.picture.after = {0, 5, 0, 0};
  engine_.picture.degree_counts = {4, 2, 7};
  TuningCandidate candidate;
  candidate.setting.kernel = "simd_rows";
  candidate.predicted_seconds = 0.5;
  candidate.measured_seconds = 0.25;
  engine_.tuning.candidates = {candidate};
  engine_.Serve("g");
  const HttpResponse response = Ask("GET", "/graphs/g");
  EXPECT_EQ(response.code, 200);
  for (const char* const part : {"adjacency in the order of the upload", "adjacency in execution order", "M1 0h1v1h-1z",
                                 ">2-3<", "simd_rows", "500 ms", "250 ms"}) {
    EXPECT_THAT(response.body, HasSubstr(part));
  }
  EXPECT_EQ(Ask("GET", "/graphs/none").code, 404);
}

TEST_F(StatusSiteTest, TheOldestSessionEndsWhenThereAreTooMany) {
  SignIn("clients");
  const std::string first = cookie_;
  for (size_t i = 0; i < Sessions::kMost; ++i) {
    clock_.Advance(std::chrono::seconds(1));
    SignIn("clients");
  }
  EXPECT_EQ(Ask("GET", "/").code, 200);
  cookie_ = first;
  EXPECT_EQ(Ask("GET", "/").code, 303);
}

}  // namespace
}  // namespace vicinal::server
