// Passwords of operators as Argon2id, passwords of projects' users as bcrypt, which existing applications bring along
// and expect. Both run in the thread pool, in turns, and are loaded when the first password comes.
import type { HashingTurns } from './hashing-turns.ts'

const argon2 = () => import('@node-rs/argon2')
const bcrypt = () => import('@node-rs/bcrypt')

export interface Passwords {
  hash(password: string): Promise<string>
  /** Compares with a stored hash; without one the same work is done for nothing, so the caller cannot tell. */
  verify(password: string, stored: string | undefined): Promise<boolean>
}

export const createPasswords = (inTurn: HashingTurns): Passwords =>
  passwords(inTurn, async password => (await argon2()).hash(password))('operators')

/** The passwords of a project's users. */
export type UserPasswords = (projectId: string) => Passwords

const bcryptCost = 10
/** bcrypt reads no further. */
export const maxPasswordBytes = 72

export const createUserPasswords = (inTurn: HashingTurns): UserPasswords =>
  passwords(inTurn, async password => (await bcrypt()).hash(password, bcryptCost))

function passwords(
  inTurn: HashingTurns,
  make: (password: string) => Promise<string>,
): (party: string) => Passwords {
  let decoy: Promise<string> | undefined
  return party => ({
    hash: password => inTurn(party, () => make(password)),
    async verify(password, stored) {
      decoy ??= make('a password nobody has')
      const isUsable = stored !== undefined && isAffordableHash(stored)
      const against = isUsable ? stored : await decoy
      const matches = await inTurn(party, () => verify(password, against))
      return matches && isUsable
    },
  })
}

/** Whatever is stored and is not a hash matches nothing. */
const verify = async (password: string, stored: string): Promise<boolean> => {
  const matches = stored.startsWith('$argon2')
    ? (await argon2()).verify(stored, password)
    : (await bcrypt()).verify(password, stored)
  return matches.catch(() => false)
}

const bcryptHash = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/
const argon2Hash =
  /^\$argon2(?:id|i|d)\$v=19\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{22,86}$/
const most = { bcryptCost: 14, kibibytes: 65_536, passes: 10, lanes: 4 }

/**
 * A hash says itself how much work it wants, and whoever can write hashes could ask for all of the machine: only those
 * that ask for little are computed.
 */
export function isAffordableHash(stored: string): boolean {
  const cost = bcryptHash.exec(stored)?.[1]
  if (cost !== undefined) return Number(cost) >= 4 && Number(cost) <= most.bcryptCost
  const [, kibibytes, passes, lanes] = argon2Hash.exec(stored)?.map(Number) ?? []
  return (
    kibibytes !== undefined && kibibytes <= most.kibibytes && passes! <= most.passes && lanes! <= most.lanes
  )
}
