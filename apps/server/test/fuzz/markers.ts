// Marks for everything in a request, so that it can be recognised anywhere: values, which may reach Postgres only as
// parameters, names chosen by a caller, and canaries, which only some callers may see.
import type { Random } from './random.ts'

/** Every number, date and uuid in the data and in requests begins with it. It occurs nowhere else. */
export const numberMark = '7391'
export const valueMark = (random: Random) => `zq${random.hex(6)}qz`
/** Only letters, so that it contains no number mark. */
export const nameMark = (random: Random) =>
  `nm${Array.from({ length: 6 }, () => random.pick([...'abcdefgh'])).join('')}mn`

export const anyValueMark = /zq[0-9a-f]{6}qz|7391/
export const anyNameMark = /nm[a-h]{6}mn/

/**
 * Who may see a row or a column: `open` everybody, `auth` signed-in users, `u1` and `u2` one of them, `svc`
 * only service_role, `none` nobody.
 */
export type Audience = 'open' | 'auth' | 'u1' | 'u2' | 'svc' | 'none'
export type Who = 'anon' | 'user1' | 'user2' | 'service'
export const everyone: readonly Who[] = ['anon', 'user1', 'user2', 'service']

const seenBy: Record<Who, readonly Audience[]> = {
  anon: ['open'],
  user1: ['open', 'auth', 'u1'],
  user2: ['open', 'auth', 'u2'],
  service: ['open', 'auth', 'u1', 'u2', 'svc'],
}

export const canary = (audience: Audience, random: Random) => `CANARY-${audience}-${random.hex(6)}`

/** Canaries in a text that this caller may not see, except those in its own request. */
export function canariesNotFor(who: Who, text: string, asked: string): string[] {
  const found = text.match(/CANARY-[a-z0-9]+-[0-9a-f]{6}/gi) ?? []
  return found.filter(each => {
    const audience = each.split('-')[1]!.toLowerCase() as Audience
    return !seenBy[who].includes(audience) && !asked.includes(each)
  })
}
