"use strict";
// Sorts the table of figures by the column whose head is clicked. Without this script, only the sorting is missing.
(() => {
  const table = document.querySelector("table.figures");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];

  function sort(place) {
    const descending = heads[place].getAttribute("aria-sort") !== "descending";
    heads.forEach((head) => head.setAttribute("aria-sort", "none"));
    heads[place].setAttribute("aria-sort", descending ? "descending" : "ascending");
    const value = (row) => row.cells[place].dataset.value;
    const compare = (left, right) => (place ? Number(left) - Number(right) : right.localeCompare(left));
    const missing = (row) => Number(value(row) === "");
    const rows = [...body.rows].sort((left, right) =>
      missing(left) - missing(right) || (descending ? -1 : 1) * compare(value(left), value(right)));
    body.append(...rows);
  }

  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => sort(place));
  });
})();
