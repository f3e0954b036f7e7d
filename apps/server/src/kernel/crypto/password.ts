// Passwords of operators are hashed with Argon2id. Passwords of projects' users are hashed with bcrypt, because imported
// users have such hashes. Both libraries run in the thread pool behind a limiter, and are loaded with the first password.
import type { Limiter } from '#src/kernel/limiter.ts'

const argon2 = () => import('@node-rs/argon2')
const bcrypt = () => import('@node-rs/bcrypt')

export interface Passwords {
  hash(password: string): Promise<string>
  /**
   * Compares with a stored hash. Without one, a decoy hash is verified instead, so that the response time does not tell
   * whether the user exists.
   */
  verify(password: string, stored: string | undefined): Promise<boolean>
}

export const createPasswords = (limit: Limiter): Passwords =>
  passwords(limit, async password => (await argon2()).hash(password))('operators')

/** The passwords of a project's users. */
export type UserPasswords = (projectId: string) => Passwords

const bcryptCost = 10
/** bcrypt ignores the bytes after these. */
export const maxPasswordBytes = 72

export const createUserPasswords = (limit: Limiter, cost = bcryptCost): UserPasswords =>
  passwords(limit, async password => (await bcrypt()).hash(password, cost))

function passwords(
  limit: Limiter,
  make: (password: string) => Promise<string>,
): (party: string) => Passwords {
  let decoy: Promise<string> | undefined
  return party => ({
    hash: password => limit(party, () => make(password)),
    async verify(password, stored) {
      decoy ??= make('a password nobody has')
      const isUsable = stored !== undefined && isAffordableHash(stored)
      const against = isUsable ? stored : await decoy
      const matches = await limit(party, () => verify(password, against))
      return matches && isUsable
    },
  })
}

/** False for a stored text that is not a hash. */
const verify = async (password: string, stored: string): Promise<boolean> => {
  const matches = stored.startsWith('$argon2')
    ? (await argon2()).verify(stored, password)
    : (await bcrypt()).verify(password, stored)
  return matches.catch(() => false)
}

const bcryptHash = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/
const argon2Hash =
  /^\$argon2(?:id|i|d)\$v=19\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{22,86}$/
const max = { bcryptCost: 14, kibibytes: 65_536, passes: 10, lanes: 4 }

/**
 * A hash contains its own cost parameters. A tenant can store hashes, so one with expensive parameters could use up the
 * CPU and memory of the machine. Only hashes within these limits are computed.
 */
export function isAffordableHash(stored: string): boolean {
  const cost = bcryptHash.exec(stored)?.[1]
  if (cost !== undefined) return Number(cost) >= 4 && Number(cost) <= max.bcryptCost
  const [, kibibytes, passes, lanes] = argon2Hash.exec(stored)?.map(Number) ?? []
  return kibibytes !== undefined && kibibytes <= max.kibibytes && passes! <= max.passes && lanes! <= max.lanes
}
