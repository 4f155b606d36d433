// Wide tables scroll by keys, too. The theme puts them into their boxes after the page has loaded.
"use strict";
const reachTables = () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    box.tabIndex = 0;
  }
};
new MutationObserver(reachTables).observe(document.body, { childList: true, subtree: true });
reachTables();
