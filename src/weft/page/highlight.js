/* Light up all parts of the page that belong to the task under the pointer. */
for (const kind of ["mouseover", "mouseout"]) {
  document.addEventListener(kind, (event) => {
    const over = event.target.closest && event.target.closest("[data-t]");
    if (!over) return;
    for (const part of document.querySelectorAll("[data-t]"))
      if (part.dataset.t === over.dataset.t) part.classList.toggle("lit", kind === "mouseover");
  });
}
