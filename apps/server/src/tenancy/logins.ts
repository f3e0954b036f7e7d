// The three logins of a project. The api login may become anon or authenticated and nothing else, the
// service login only service_role, so that no function called by anon can climb; the owner login owns
// schema public. Passwords are derived, so there is nothing to store and a broken login can be put right.
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'
import { scramVerifier } from '#src/kernel/crypto/scram.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { identifier, literal } from '#src/kernel/postgres/sql.ts'

export type Login = 'owner' | 'api' | 'svc'
export const logins: readonly Login[] = ['owner', 'api', 'svc']

export const loginRole = (ref: string, login: Login) => `${ref}_${login}`

export interface Logins {
  address(ref: string, login: Login): ServerAddress
  verifier(ref: string, login: Login): Promise<string>
  /** Undoes what a tenant can do to its own login: change the password, store settings. */
  heal(control: Session, ref: string, login: Login): Promise<void>
}

export function createLogins(server: ServerAddress, deriveKey: DeriveKey): Logins {
  const key = deriveKey('database login')
  const password = (ref: string, login: Login) => hmac(key, loginRole(ref, login)).toString('base64url')
  const verifier = (ref: string, login: Login) => scramVerifier(password(ref, login))
  return {
    address: (ref, login) => ({ ...server, user: loginRole(ref, login), password: password(ref, login) }),
    verifier,
    async heal(control, ref, login) {
      const role = identifier(loginRole(ref, login))
      await control.script(
        `alter role ${role} password ${literal(await verifier(ref, login))}; alter role ${role} reset all`,
      )
    },
  }
}
