// The dialog that asks the user to confirm an action, or for a token.

import { text } from "./words.js";

const dialog = document.getElementById("ask");
const [title, words, yes] = ["ask-title", "ask-text", "ask-yes"].map((id) => document.getElementById(id));
const [label, labelText, input] = ["ask-label", "ask-label-text", "ask-input"].map((id) => document.getElementById(id));

let asked = Promise.resolve();

// Resolves to whether the user agreed; with a field, to its text, or null.
export function ask(question) {
  asked = asked.then(() => show(question));
  return asked;
}

function show({ heading, explanation, action, danger = false, field = null, secret = false }) {
  text(title, heading);
  text(words, explanation);
  text(yes, action);
  yes.classList.toggle("danger", danger);
  label.hidden = field === null;
  text(labelText, field ?? "");
  input.type = secret ? "password" : "text";
  input.value = "";
  dialog.returnValue = "no";
  dialog.showModal();
  (field === null ? yes : input).focus();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        const agreed = dialog.returnValue === "yes";
        resolve(field === null ? agreed : agreed ? input.value.trim() : null);
        input.value = "";
      },
      { once: true },
    );
  });
}

// Without this, Enter in the field presses the first button, which cancels.
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    event.preventDefault();
    dialog.close("yes");
  }
});
