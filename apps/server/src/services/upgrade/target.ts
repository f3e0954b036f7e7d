// Compares the wanted version of an upgrade with the installed one.
import { Refusal } from '#src/kernel/errors.ts'

/** As in https://semver.org, without build metadata, which has no order. */
const form =
  /^v?(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?$/

interface Parsed {
  numbers: number[]
  prerelease: string[]
}

function parse(version: string): Parsed | undefined {
  const found = form.exec(version)
  if (!found) return
  return { numbers: found.slice(1, 4).map(Number), prerelease: found[4]?.split('.') ?? [] }
}

/** Negative if the first one is older. */
function compare(a: Parsed, b: Parsed): number {
  for (const [place, number] of a.numbers.entries())
    if (number !== b.numbers[place]) return number - b.numbers[place]!
  if (a.prerelease.length === 0 || b.prerelease.length === 0) return b.prerelease.length - a.prerelease.length
  for (const [place, part] of a.prerelease.entries()) {
    const other = b.prerelease[place]
    if (other === undefined) return 1
    const order = compareParts(part, other)
    if (order !== 0) return order
  }
  return a.prerelease.length - b.prerelease.length
}

function compareParts(a: string, b: string): number {
  const [isNumber, isOtherNumber] = [/^\d+$/.test(a), /^\d+$/.test(b)]
  if (isNumber && isOtherNumber) return Number(a) - Number(b)
  if (isNumber !== isOtherNumber) return isNumber ? -1 : 1
  return a === b ? 0 : a < b ? -1 : 1
}

/** Only the installed release can be the target, because its migrations are applied. */
export function checkTarget(target: string | undefined, installed: string): void {
  if (target === undefined) return
  const wanted = parse(target)
  if (!wanted) throw new Refusal('invalid_target', `"target" must be a semantic version such as ${installed}`)
  const order = compare(wanted, parse(installed)!)
  if (order < 0)
    throw new Refusal(
      'invalid_target',
      `The installed release is ${installed}: there is no upgrade to the older ${target}; to go back, see docs/upgrades.md`,
    )
  if (order > 0)
    throw new Refusal(
      'upgrade_not_installed',
      `${target} is not installed: install it, start the platform again, and run the upgrade then. The installed release is ${installed}`,
    )
}

/** An unknown form has no order. */
export function isNewer(version: string, installed: string): boolean {
  const [given, own] = [parse(version), parse(installed)]
  return given !== undefined && own !== undefined && compare(given, own) > 0
}
