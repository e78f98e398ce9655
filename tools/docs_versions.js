// The versions of these pages, in the header of each page: a script, because a page opened from a folder cannot fetch.
{
  const versions = []
  const top = new URL(".", document.currentScript.src)
  const here = versions.find((version) => location.href.startsWith(new URL(version + "/", top)))
  const menu = document.createElement("div")
  menu.className = "md-version"
  menu.innerHTML = '<button class="md-version__current" aria-label="Version"></button><ul class="md-version__list"></ul>'
  menu.firstChild.textContent = here
  for (const version of versions) {
    const link = document.createElement("a")
    link.className = "md-version__link"
    link.href = new URL(version + "/index.html", top)
    link.textContent = version
    const item = document.createElement("li")
    item.className = "md-version__item"
    item.append(link)
    menu.lastChild.append(item)
  }
  document.querySelector(".md-header__topic").append(menu)
}
