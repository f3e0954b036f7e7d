// The four logins of a project. The api login can switch to anon or authenticated, the service login to service_role, so
// that a function called by anon cannot escalate. The owner login owns schema public. The auth login works on users and
// sessions and can switch to no role. Passwords are derived, so none is stored and a broken login can be repaired. Salts are
// derived too, because a pooler must have the same verifier as Postgres: a repaired login keeps its verifier.
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'
import { scramVerifier } from '#src/kernel/crypto/scram.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { identifier, literal, sql } from '#src/kernel/postgres/sql.ts'

export type Login = 'owner' | 'api' | 'svc' | 'auth'
export const logins: readonly Login[] = ['owner', 'api', 'svc', 'auth']

/** Matches the logins of all projects and no others. */
export const tenantLogin = '^p_[a-z2-7]{20}_(owner|api|svc|auth)$'

export const loginRole = (ref: string, login: Login) => `${ref}_${login}`

export interface Logins {
  address(ref: string, login: Login): ServerAddress
  verifier(ref: string, login: Login): Promise<string>
  /** Resets settings that a tenant has stored for its login. */
  check(control: Session, ref: string, login: Login): Promise<void>
  /** Reverts all changes a tenant can make to its login: the password and stored settings. */
  heal(control: Session, ref: string, login: Login): Promise<void>
}

/** The only setting stored for a login. Only a superuser can remove it. */
export const tempFileLimits: Record<Login, string> = {
  owner: '1GB',
  api: '256MB',
  svc: '256MB',
  auth: '256MB',
}

export function createLogins(server: ServerAddress, deriveKey: DeriveKey): Logins {
  const key = deriveKey('database login')
  const saltKey = deriveKey('database login salt')
  const password = (ref: string, login: Login) => hmac(key, loginRole(ref, login)).toString('base64url')
  const salt = (ref: string, login: Login) => hmac(saltKey, loginRole(ref, login)).subarray(0, 16)
  const verifier = (ref: string, login: Login) => scramVerifier(password(ref, login), salt(ref, login))
  const healing = new Map<string, Promise<void>>()

  /** Connections that find the same broken login share one repair. */
  function oneAtATime(control: Session, ref: string, login: Login): Promise<void> {
    const name = loginRole(ref, login)
    const running = healing.get(name)
    if (running) return running
    const started = repair(control, ref, login).finally(() => healing.delete(name))
    healing.set(name, started)
    return started
  }

  /** A tenant can lock its role in an open transaction, so the wait is short. */
  async function repair(control: Session, ref: string, login: Login): Promise<void> {
    const role = identifier(loginRole(ref, login))
    await control.script(`
      set local lock_timeout = '500ms';
      alter role ${role} password ${literal(await verifier(ref, login))};
      alter role ${role} reset all;
      alter role ${role} in database ${identifier(ref)} reset all;
      alter role ${role} set temp_file_limit = '${tempFileLimits[login]}'`)
  }

  return {
    address: (ref, login) => ({ ...server, user: loginRole(ref, login), password: password(ref, login) }),
    verifier,
    async check(control, ref, login) {
      const expected = [`temp_file_limit=${tempFileLimits[login]}`]
      const strange = await control.row(sql`
        select from pg_db_role_setting s join pg_roles r on r.oid = s.setrole
          left join pg_database d on d.oid = s.setdatabase
         where r.rolname = ${loginRole(ref, login)}
           and (d.datname = ${ref} or (s.setdatabase = 0 and s.setconfig <> ${expected}::text[]))`)
      if (strange) await oneAtATime(control, ref, login)
    },
    heal: oneAtATime,
  }
}
