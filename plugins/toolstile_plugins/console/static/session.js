"use strict";
// The timeline of a session, which loads again when the session has new calls.

const place = document.getElementById("timeline");
// The least milliseconds between two loads.
const REST = 1000;
let show = null, isBusy = false, isStale = false;

async function load() {
  isStale = true;
  // A list that is open would close.
  if (isBusy || document.hidden || place.querySelector("select:focus")) return;
  isBusy = true;
  isStale = false;
  try {
    const response = await fetch(place.dataset.calls);
    if (!response.ok) throw new Error(response.statusText);
    const data = await response.json();
    if (show) show(data);
    else show = timeline(place, data);
  } catch {
    live.textContent = STATES.lost;
  }
  setTimeout(() => { isBusy = false; if (isStale) load(); }, REST);
}

place.addEventListener("focusout", () => setTimeout(() => { if (isStale) load(); }));
follow(place.dataset, load, (news) => { if (news.trim()) load(); });
