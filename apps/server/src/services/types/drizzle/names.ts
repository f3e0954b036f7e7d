// Names of constants and properties: camel case, unique, and not reserved by TypeScript or Drizzle.

/** `user_id` becomes `userId`. Characters that are not allowed in names separate words. */
export function camel(name: string): string {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(word => word !== '')
  const joined = words
    .map((word, place) => (place === 0 ? lowered(word) : word[0]!.toUpperCase() + word.slice(1)))
    .join('')
  return /^[\p{L}_$]/u.test(joined) ? joined : `_${joined}`
}

/** `ID` and `Users` get a lower-case start, `userId` stays. */
const lowered = (word: string) =>
  word === word.toUpperCase() ? word.toLowerCase() : word[0]!.toLowerCase() + word.slice(1)

export interface Names {
  /** The preferred name; with the suffix if it is reserved; the longer form if it is taken; then with a number. */
  take(wanted: string, longer?: string, ending?: string): string
}

export function createNames(taken: readonly string[] = reserved): Names {
  const words = new Set(taken)
  const names = new Set(taken)
  /** The next number by name, because thousands of tables may map to the same one. */
  const counts = new Map<string, number>()
  return {
    take(wanted, longer = wanted, ending = '') {
      const isWord = words.has(wanted)
      const candidates = [wanted, isWord ? wanted + ending : camel(longer), camel(longer) + ending]
      let name = candidates.find(each => !names.has(each))
      if (name === undefined) {
        const stem = `${wanted}${ending}`
        let count = counts.get(stem) ?? 2
        while (names.has(`${stem}${count}`)) count++
        counts.set(stem, count + 1)
        name = `${stem}${count}`
      }
      names.add(name)
      return name
    },
  }
}

const reserved = [
  ...'arguments as async await boolean break case catch class const continue debugger default delete do else enum eval export extends false finally for function if implements import in instanceof interface let new null package private protected public return static super switch this throw true try type typeof undefined var void while with yield'.split(
    ' ',
  ),
  ...'sql relations one many table pgTable pgView pgMaterializedView pgEnum pgSchema primaryKey foreignKey unique customType boolean smallint integer bigint real doublePrecision numeric text varchar char uuid date time timestamp interval json jsonb inet cidr macaddr macaddr8 point vector serial smallserial bigserial'.split(
    ' ',
  ),
]
