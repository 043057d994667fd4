// What Sphinx's search lacks: pages whose title or headings hold the words come first, then those that speak of them
// most, each group in the order of the handbook; multi-head is also found as MultiHead, as formulas have it; and below
// each find stands a line of the page, from searchtext.js.
"use strict";

(() => {
  const query = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().trim();
  const words = query.split(/\s+/).filter(Boolean);
  const texts = typeof HANDBOOK_TEXT === "object" ? HANDBOOK_TEXT : {};
  const close = (text) => text.toLowerCase().replace(/[-‐‑–,\s]/g, "");  // multi-head, multi head and MultiHead are one
  const holds = (text) => close(text).includes(close(query)) || words.every((word) => close(text).includes(close(word)));
  const times = (text, what) => text.split(what).length - 1;
  const spoken = (page) => {
    const text = close(texts[page] ?? "");
    return times(text, close(query)) || Math.min(...words.map((word) => times(text, close(word))));
  };
  // Sections, then lessons, then the rest; what only collects comes last.
  const place = (page) => {
    const [, lesson, number] = /^(l?)(\d+)-/.exec(page) ?? [];
    if (number) return Number(number) + (lesson ? 100 : 0);
    return { index: 200, walk: 201, errata: 300, references: 301 }[page] ?? 250;
  };

  const rank = () => {
    const { docnames, titles, alltitles } = Search._index;
    const most = Math.max(...docnames.filter((page) => place(page) < 200).map(spoken));
    const headings = docnames.map(() => []);
    for (const [heading, files] of Object.entries(alltitles)) for (const [file] of files) headings[file].push(heading);
    return new Map(docnames.map((page, file) => {
      const collects = place(page) >= 200;
      let group = most && 2 * spoken(page) >= most ? 1 : 0;
      if (headings[file].some((heading) => holds(heading))) group = 2;
      if (collects) group = -1;
      if (holds(titles[file])) group = 3;
      return [page, 1000 * group - place(page)];
    }));
  };
  const found = (results) => {
    const { docnames, titles, filenames } = Search._index;
    const ranks = rank();
    const there = new Set(results.map(([page]) => page));
    docnames.forEach((page, file) => {
      if (!there.has(page) && spoken(page)) results.push([page, titles[file], "", null, 0, filenames[file], "text"]);
    });
    // A page stands before its own headings; Sphinx shows the last first.
    const score = ([page, , anchor]) => ranks.get(page) + (anchor ? 0 : 0.5);
    const seen = new Set();
    return results
      .filter(([page, title]) => !seen.has(`${page} ${title}`) && seen.add(`${page} ${title}`))
      .sort((one, other) => score(one) - score(other));
  };

  const excerpt = (page) => {
    const text = texts[page] ?? "";
    const lower = text.toLowerCase();
    const said = [query, ...words].find((word) => lower.includes(word));
    if (!said) return null;
    const at = lower.indexOf(said);
    const after = document.documentElement.lang.startsWith("zh") ? 50 : 120;
    const start = at < 60 ? 0 : Math.max(0, at - 60);
    const line = document.createElement("p");
    const mark = document.createElement("mark");
    line.className = "context";
    mark.textContent = text.slice(at, at + said.length);
    line.append(start ? "… " : "", text.slice(start, at), mark, text.slice(at + said.length, at + said.length + after), " …");
    return line;
  };
  const told = new Set();
  document.addEventListener("DOMContentLoaded", () => {
    const search = Search._performSearch;
    Search._performSearch = (...asked) => (query ? found(search(...asked)) : search(...asked));
    new MutationObserver(() => {
      for (const find of document.querySelectorAll("#search-results li:not([data-told])")) {
        find.dataset.told = "";
        const [address, anchor] = (find.querySelector("a")?.getAttribute("href") ?? "").split("#");
        const page = address.replace(/\.html$/, "");
        const line = anchor || told.has(page) ? null : excerpt(page);
        told.add(page);
        if (line) find.append(line);
      }
    }).observe(document.getElementById("search-results"), { childList: true, subtree: true });
  });
})();
