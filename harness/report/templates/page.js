"use strict";
(function () {
  function value(row, column) {
    var cell = row.cells[column];
    var words = cell ? cell.textContent.trim() : "";
    var figure = parseFloat(words);
    return { words: words, figure: figure, plain: !isNaN(figure) && /^[-+0-9.]/.test(words) };
  }
  function sort(table, column, down) {
    var body = table.tBodies[0];
    var rows = Array.prototype.slice.call(body.rows);
    rows.sort(function (one, other) {
      var a = value(one, column), b = value(other, column);
      var order = a.plain && b.plain ? a.figure - b.figure : a.words.localeCompare(b.words, undefined, { numeric: true });
      return down ? -order : order;
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (head, column) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") === "ascending";
        Array.prototype.forEach.call(table.tHead.rows[0].cells, function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, column, down);
      });
      head.textContent = "";
      head.appendChild(button);
    });
  });
  var tools = document.getElementById("tools");
  if (tools) {
    var box = document.createElement("input");
    box.type = "search";
    box.setAttribute("aria-label", "show only rows that contain");
    box.placeholder = "only rows that contain ...";
    box.addEventListener("input", function () {
      var wanted = box.value.toLowerCase();
      document.querySelectorAll("#measurements ~ details tbody tr").forEach(function (row) {
        row.hidden = wanted !== "" && row.textContent.toLowerCase().indexOf(wanted) < 0;
      });
      if (wanted) document.querySelectorAll("#measurements ~ details").forEach(function (each) { each.open = true; });
    });
    tools.appendChild(box);
    tools.appendChild(document.createTextNode(" A click on a column's head sorts by it."));
  }
})();
