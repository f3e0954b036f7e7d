// The names under which the packages of a function are installed. Code finds a package by the name and version in its
// `npm:` specifier. A second version of a package has another name, and the code imports it by that name.

const form = /^npm:\/?((?:@[a-z0-9._~-]+\/)?[a-z0-9._~-]+)(?:@([^/]+))?(\/.*)?$/i
const versionForm = /^[\w.^~<>=|*+ -]{1,100}$/
const maxNameLength = 214
export const aliasPrefix = 'plinth-alias-'

export const maxPackages = 200

export class PackageNames {
  /** By name: the package with its range, as npm writes it in package.json. */
  readonly wanted = new Map<string, string>()

  /** The specifier for the code, or undefined if it does not name a package. */
  specifierFor(specifier: string): string | undefined {
    const [, name, range = '*', path = ''] = form.exec(specifier) ?? []
    if (name === undefined || name.length > maxNameLength || !versionForm.test(range)) return
    const wanted = `npm:${name}@${range}`
    const before = this.wanted.get(name)
    if (before === undefined) this.wanted.set(name, wanted)
    if (before === undefined || before === wanted) return specifier
    return `${this.#aliasOf(wanted)}${path}`
  }

  #aliasOf(wanted: string): string {
    for (const [name, each] of this.wanted) if (each === wanted) return name
    const alias = `${aliasPrefix}${this.wanted.size}`
    this.wanted.set(alias, wanted)
    return alias
  }

  /** Entries of an import map, with which Deno resolves the aliases. */
  imports(): Record<string, string> {
    const entries = [...this.wanted].filter(([name]) => name.startsWith(aliasPrefix))
    return Object.fromEntries(
      entries.flatMap(([name, wanted]) => [
        [name, wanted],
        [`${name}/`, `${wanted.replace('npm:', 'npm:/')}/`],
      ]),
    )
  }
}
