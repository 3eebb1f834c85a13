#!/usr/bin/env python3
"""The reports of studies in a real browser: quiet, readable in both schemes, on a phone, on paper, without JavaScript.

    report_test.py PROGRAM [FOLDER]           makes small reports with PROGRAM (attune), and checks them
    report_test.py --pictures REPORT FOLDER   photographs each section of a report, for someone to look at

Ends with 0, 1 where something is wrong (and says what was seen), or 77 where there is no browser, which ctest takes as
skipped; with ATTUNE_BROWSER=required as in ./dev browser that is wrong, too.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from browser import Browser, missing_programs

# Together they have every figure there is, of few and short runs.
REPORTS = {
    "training": ["saturation", "--quick", "--axes",
                 "d=8,32 rule=1,1/sqrt,1/d steps=30 seed=1,2 maps=no,yes optimizer=adam,sgd"],
    "variants": ["saturation", "--axes", "kind=training normaliser=softmax,sparsemax n=4,32 gain=1,2 steps=30"],
    "depth": ["depth", "--quick"],
}

FIGURES = """return [...document.querySelectorAll('section.figure')].map(section => section.id + ': ' +
  [...section.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().height > 20 &&
                                                     svg.querySelector('path, rect, circle')).length + ' pictures')"""

# Texts whose contrast with what is behind them is less than 4.5 (WCAG's AA); 4.3 on the colours of heat maps, where
# there is one on which neither black nor white has more. Of hatched cells the text has a halo.
PALE = """
const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255)
  .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const numbers = color => color.match(/[0-9.]+/g).map(Number);
const behind = element => {
  for (let at = element; at; at = at.parentElement) {
    const color = numbers(getComputedStyle(at).backgroundColor);
    if (color.length == 3 || color[3] > 0) return color.slice(0, 3);
  }
  return [255, 255, 255];
};
const found = new Set();
const texts = 'p, li, a, h1, h2, h3, td, th, dt, dd, pre, summary, span, figcaption, text';
for (const element of document.querySelectorAll(texts)) {
  if (element.classList.contains('halo') || !element.textContent.trim()) continue;
  const style = getComputedStyle(element), svg = element instanceof SVGElement;
  if (svg && element.tagName == 'a') continue;
  const cell = element.classList.contains('cell');
  const paper = cell ? numbers(getComputedStyle(element.previousElementSibling).fill) : behind(element);
  const [a, b] = [luminance(numbers(svg ? style.fill : style.color).slice(0, 3)), luminance(paper)];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < (cell ? 4.3 : 4.5)) found.add(`${element.textContent.trim().slice(0, 40)} (${contrast.toFixed(1)})`);
}
return [...found];"""

# Texts of a picture that touch one another, or that stand out of it.
COLLISIONS = """
const found = [];
for (const svg of document.querySelectorAll('svg')) {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim());
  const boxes = texts.map(text => text.getBoundingClientRect());
  const name = i => `${svg.closest('section').id}: "${texts[i].textContent}"`;
  for (let i = 0; i < texts.length; ++i) {
    const a = boxes[i];
    if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
      found.push(name(i) + ' stands out of its picture');
    for (let j = i + 1; j < texts.length; ++j) {
      const b = boxes[j], wide = Math.min(a.right, b.right) - Math.max(a.left, b.left),
            high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 3.5) found.push(`${name(i)} and "${texts[j].textContent}" touch`);
    }
  }
}
return found;"""

# Elements that reach over the right edge, but for those in something that scrolls by itself.
TOO_WIDE = """
const width = document.documentElement.clientWidth;
return [...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.scroll, .panel > *') && e.getBoundingClientRect().right > width + 1)
  .map(e => `${e.tagName.toLowerCase()}.${e.getAttribute('class')} to ` +
            `${e.getBoundingClientRect().right.toFixed(0)}: ${e.textContent.trim().slice(0, 40)}`);"""

SMALL = """
const found = new Set();
for (const svg of document.querySelectorAll('svg')) {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  for (const text of svg.querySelectorAll('text'))
    if (scale * parseFloat(getComputedStyle(text).fontSize) < 6.9)
      found.add(`${svg.closest('section').id}: "${text.textContent}"`);
}
return [...found];"""


class Checks:
    def __init__(self, browser):
        self.browser = browser
        self.failures = []
        self.count = 0

    def __call__(self, what, seen, expected):
        self.count += 1
        if seen != expected:
            self.failures.append(f"{what}\n    expected {expected!r}\n    seen     {seen!r}")

    def true(self, what, holds, seen):
        self.count += 1
        if not holds:
            self.failures.append(f"{what}\n    seen     {seen!r}")

    def report(self, name, path):
        """All that holds of every report. Returns its figures."""
        browser, url = self.browser, path.resolve().as_uri()
        browser.media()
        browser.resize(1280, 900)
        browser.log("performance"), browser.console()
        browser.open(url)
        figures = browser.run(FIGURES)
        self(f"{name}: asks for nothing but itself",
             [address for address in browser.requests() if not address.startswith("data:")], [url])
        self(f"{name}: the browser's timing knows of no resource either",
             browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)"), [])
        self.true(f"{name}: has figures, all of them drawn", figures and not any(": 0 " in f for f in figures), figures)
        self(f"{name}: links lead to places that there are",
             browser.run("return [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
                         ".filter(href => !href.startsWith('#') || !document.getElementById(href.slice(1)))"), [])
        self(f"{name}: labels stand apart, and in their pictures", browser.run(COLLISIONS), [])
        paper = {}
        for scheme in ("light", "dark"):
            browser.media("", scheme)
            paper[scheme] = browser.run("return getComputedStyle(document.body).backgroundColor")
            self(f"{name}: text can be read in the {scheme} scheme", browser.run(PALE), [])
        self(f"{name}: light and dark", paper, {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"})
        self.on_paper(name)
        self.on_phone(name)
        self(f"{name}: has nothing to say to the console", browser.console(), [])
        return figures

    def on_paper(self, name):
        browser = self.browser
        browser.media("print", "dark")
        self(f"{name}: paper is white, whatever the scheme",
             browser.run("return getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        self(f"{name}: text can be read on paper", browser.run(PALE), [])
        folded = browser.run("return [...document.querySelectorAll('details table')].filter(table =>"
                             " !table.checkVisibility() || table.getBoundingClientRect().height < 20).length")
        self(f"{name}: folded tables are unfolded on paper", folded, 0)
        browser.media()
        pages = browser.pages()
        self.true(f"{name}: prints on some sheets", 1 <= pages <= 40, f"{pages} sheets")

    def on_phone(self, name):
        browser = self.browser
        browser.resize(400, 800, phone=True)
        self(f"{name}: as wide as a phone",
             browser.run("const e = document.documentElement; return [e.clientWidth, e.scrollWidth]"), [400, 400])
        self(f"{name}: nothing reaches over a phone's edge", browser.run(TOO_WIDE), [])
        self(f"{name}: labels are not too small on a phone", browser.run(SMALL), [])
        browser.resize(1280, 900)

    def without_script(self, name, path, figures):
        browser = self.browser
        browser.command("Emulation.setScriptExecutionDisabled", value=True)
        browser.open("data:text/html,<title>off</title><script>document.title = 'on'</script>")
        self("JavaScript is off", browser.run("return document.title"), "off")
        browser.open(path.resolve().as_uri())
        self(f"{name}: without JavaScript the same figures are there", browser.run(FIGURES), figures)
        summary = browser.run("return document.querySelectorAll('details').length")
        if summary:
            browser.click("summary")
            self(f"{name}: without JavaScript a table unfolds",
                 browser.run("return document.querySelector('details table').checkVisibility()"), True)
        browser.command("Emulation.setScriptExecutionDisabled", value=False)

    def cells_lead_to_curves(self, name, path):
        browser = self.browser
        browser.open(path.resolve().as_uri())
        links = browser.run("return [...document.querySelectorAll('#steps svg a')].map(a => a.getAttribute('href'))")
        self.true(f"{name}: a heat map with twelve cells, each with a place of its own", len(set(links)) == 12, links)
        for link in (links[0], links[-1]) if links else ():
            browser.run("scrollTo(0, 0)")
            browser.click(f'#steps svg a[href="{link}"]')
            seen = browser.run("""
              const target = document.querySelector(':target');
              if (!target) return [location.hash, null, false, false];
              const top = target.getBoundingClientRect().top;
              return [location.hash, target.closest('section').id, !!target.querySelector('svg path.line'),
                      top >= 0 && top < innerHeight];""")
            self(f"{name}: a click on {link} leads to its curves, and these are seen", seen,
                 [link, "curves", True, True])


def make(program, folder):
    reports = {}
    for name, arguments in REPORTS.items():
        out = folder / name
        subprocess.run([program, "study", *arguments, "--out", out], check=True, stdout=subprocess.DEVNULL)
        reports[name] = out / "report.html"
    return reports


def check(program, folder):
    reports = make(program, folder)
    with Browser() as browser:
        checks = Checks(browser)
        seen = []
        for name, path in reports.items():
            figures = checks.report(name, path)
            checks.without_script(name, path, figures)
            seen += [figure.split(":")[0] for figure in figures]
        checks.cells_lead_to_curves("training", reports["training"])
        wanted = {"theory", "fan", "learning", "steps", "inside", "strips", "curves", "keys", "normalisers"}
        checks("every figure was looked at", sorted(wanted - set(seen)), [])
    for failure in checks.failures:
        print("ERROR:", failure)
    print(f"{checks.count} checks of {len(reports)} reports, {len(checks.failures)} failed")
    return 1 if checks.failures else 0


def take_pictures(report, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        for name, width, scheme in (("light", 1280, "light"), ("dark", 1280, "dark"), ("phone", 400, "light")):
            browser.resize(width, 900, phone=width < 600)
            browser.media("", scheme)
            browser.open(report.resolve().as_uri())
            sections = browser.run("return [...document.querySelectorAll('header, section')].map(s => s.id)")
            for number, section in enumerate(sections):
                path = folder / f"{name}-{number:02d}-{section}.png"
                browser.photograph("#" + section, path)
                print(path)
    return 0


def main():
    if lacking := missing_programs():
        print(f"There is no {' and no '.join(lacking)} here: ./dev browser installs them")
        return 1 if os.environ.get("ATTUNE_BROWSER") == "required" else 77
    if sys.argv[1] == "--pictures":
        return take_pictures(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    program = str(pathlib.Path(sys.argv[1]).resolve())
    if len(sys.argv) > 2:
        return check(program, pathlib.Path(sys.argv[2]))
    with tempfile.TemporaryDirectory(prefix="attune-report-") as folder:
        return check(program, pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())
