"use strict";
// The token goes out of the address, and to the server: it is good for this once.
const form = document.getElementById("door");
const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, "", location.pathname);
  form.elements.token.value = token;
  form.submit();
}
