// SVG: well-formed whatever is written, readable light and dark, nothing from elsewhere.
#include "attune/examples/show/svg.h"

#include <doctest/doctest.h>

using namespace attune::show;

TEST_CASE("svg: markup in a text stays text") {
  CHECK(svg_escape("</svg><script>\"&\"") == "&lt;/svg&gt;&lt;script&gt;&quot;&amp;&quot;");
  CHECK(svg_escape("√d é\n") == "√d é\n");
  CHECK(svg_escape("\x01 \xff \xc3") == "� � �");
  CHECK(svg_escape(std::string_view("\0", 1)) == "�");
  CHECK(svg_text(1, 2, "<") ==
        "<text x=\"1.0\" y=\"2.0\" class=\"label\" text-anchor=\"start\">&lt;</text>\n");
}

TEST_CASE("svg: a file of its own, in both colours, without scripts") {
  const std::string text = Svg{10, 20, "<path/>\n"}.text("a < b");
  CHECK(text.find(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 10 20\" width=\"10\" height=\"20\"") ==
        0);
  CHECK(text.find("<title>a &lt; b</title>") != text.npos);
  CHECK(text.find("prefers-color-scheme: dark") != text.npos);
  CHECK(text.find("<script") == text.npos);
  CHECK(text.find("href") == text.npos);
  CHECK(text.substr(text.size() - 15) == "<path/>\n</svg>\n");
}

TEST_CASE("svg_grid: pictures in rows, each moved to its place") {
  const std::vector<Svg> pictures = {{10, 20, "a"}, {30, 5, "b"}, {15, 15, "c"}};
  const Svg page = svg_grid(pictures, 2);
  CHECK(page.width == 40);
  CHECK(page.height == 35);
  CHECK(page.body ==
        "<g transform=\"translate(0.0 0.0)\">\na</g>\n<g transform=\"translate(10.0 0.0)\">\nb</g>\n"
        "<g transform=\"translate(0.0 20.0)\">\nc</g>\n");
  CHECK(svg_grid(pictures, 0).height == 40);
  CHECK(svg_grid({}, 3).width == 0);
  CHECK(svg_grid(pictures, 2, "title").height == 71);
}

TEST_CASE("svg: part of a page, whose style sheet stands once") {
  const std::string text = Svg{10, 20, "<path/>\n"}.inline_text("a < b");
  CHECK(text ==
        "<svg viewBox=\"0 0 10 20\" width=\"10\" style=\"min-width: 7px\" role=\"img\">\n<title>a &lt; b</title>\n<path/>\n</svg>\n");
  CHECK(svg_style().find("prefers-color-scheme: dark") != svg_style().npos);
}
