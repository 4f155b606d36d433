"use strict";
// The timeline of a session, which loads again when the session has new calls.

const place = document.getElementById("timeline");
// The least milliseconds between two loads.
const REST = 1000;
let show = null, busy = false, isStale = false;

async function load() {
  isStale = true;
  if (busy || document.hidden) return;
  busy = true;
  while (isStale) {
    isStale = false;
    try {
      const response = await fetch(place.dataset.calls);
      if (!response.ok) throw new Error(response.statusText);
      const data = await response.json();
      // A list that is open would close.
      while (place.querySelector("select:focus")) await rest();
      if (show) show(data);
      else show = timeline(place, data);
    } catch {
      live.textContent = STATES.lost;
    }
    await rest();
  }
  busy = false;
}

const rest = () => new Promise((done) => setTimeout(done, REST));

if (place) follow(place.dataset, load, (news) => { if (news.trim()) load(); });
