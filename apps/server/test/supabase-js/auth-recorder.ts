// Watches which methods of client.auth a suite calls, from outside: the client itself stays as it was published.
import type { Auth } from './auth-shapes.ts'

/** What each file of the suite calls at least; a method that is in none of them and not left open needs a test. */
export const walked = {
  accounts: ['auth.signUp', 'auth.signInAnonymously', 'auth.signInWithPassword'],
  sessions: [
    'auth.initialize',
    'auth.isThrowOnErrorEnabled',
    'auth.getSession',
    'auth.setSession',
    'auth.refreshSession',
    'auth.getUser',
    'auth.getClaims',
    'auth.onAuthStateChange',
    'auth.startAutoRefresh',
    'auth.stopAutoRefresh',
    'auth.dispose',
    'auth.signOut',
    'auth.admin.signOut',
  ],
  mail: [
    'auth.signInWithOtp',
    'auth.verifyOtp',
    'auth.exchangeCodeForSession',
    'auth.resetPasswordForEmail',
    'auth.resend',
    'auth.reauthenticate',
    'auth.updateUser',
  ],
  providers: [
    'auth.signInWithOAuth',
    'auth.signInWithIdToken',
    'auth.linkIdentity',
    'auth.unlinkIdentity',
    'auth.getUserIdentities',
  ],
  factors: [
    'auth.mfa.enroll',
    'auth.mfa.challenge',
    'auth.mfa.verify',
    'auth.mfa.challengeAndVerify',
    'auth.mfa.unenroll',
    'auth.mfa.listFactors',
    'auth.mfa.getAuthenticatorAssuranceLevel',
    'auth.admin.mfa.listFactors',
    'auth.admin.mfa.deleteFactor',
  ],
  admin: [
    'auth.admin.createUser',
    'auth.admin.listUsers',
    'auth.admin.getUserById',
    'auth.admin.updateUserById',
    'auth.admin.deleteUser',
    'auth.admin.inviteUserByEmail',
    'auth.admin.generateLink',
  ],
} as const
export type Theme = keyof typeof walked

/** Methods, and whole groups of them, that a server may leave out: they answer with a refusal, and that is tested. */
export const leftOpen = [
  'auth.signInWithWeb3',
  'auth.signInWithSSO',
  'auth.signInWithPasskey',
  'auth.registerPasskey',
  'auth.passkey.*',
  'auth.oauth.*',
  'auth.mfa.webauthn.*',
  'auth.mfa.recoveryCodes.*',
  'auth.admin.passkey.*',
  'auth.admin.oauth.*',
  'auth.admin.customProviders.*',
]

/** Methods that only the client itself calls; TypeScript hides them, the prototypes do not. */
const internal = new Set([
  'auth.signInWithEthereum',
  'auth.signInWithSolana',
  'auth.linkIdentityOAuth',
  'auth.linkIdentityIdToken',
  'auth.fetchJwk',
])
/** Properties that hold what the client was given, not what it offers. */
const given = new Set(['storage', 'userStorage', 'client', 'fetch', 'logger', 'lock'])

export const called = new Set<string>()

/** The same object with every call noted, and those of the groups it holds. */
export function watched<T extends object>(object: T, path = 'auth'): T {
  return new Proxy(object, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (typeof name !== 'string' || given.has(name)) return value
      if (typeof value === 'function')
        return (...args: unknown[]) => {
          called.add(`${path}.${name}`)
          return value.apply(target, args)
        }
      return isGroup(value) ? watched(value, `${path}.${name}`) : value
    },
  })
}

/** Every public method of the client and of the groups it holds, as they are at run time. */
export function offered(auth: Auth): string[] {
  return methodsBelow(auth, 'auth').filter(method => !internal.has(method))
}

export function isLeftOpen(method: string): boolean {
  const group = `${method.slice(0, method.lastIndexOf('.'))}.*`
  return leftOpen.includes(method) || leftOpen.includes(group)
}

function methodsBelow(object: object, path: string): string[] {
  const own = Object.entries(object).filter(([name]) => !given.has(name) && !name.startsWith('_'))
  return [
    ...inherited(object).map(name => `${path}.${name}`),
    ...own.flatMap(([name, value]) =>
      typeof value === 'function'
        ? [`${path}.${name}`]
        : isGroup(value)
          ? methodsBelow(value, `${path}.${name}`)
          : [],
    ),
  ]
}

const isGroup = (value: unknown): value is object =>
  typeof value === 'object' &&
  value !== null &&
  Object.values(value).some(member => typeof member === 'function')

function inherited(object: object): string[] {
  const names = new Set<string>()
  for (
    let each = Object.getPrototypeOf(object);
    each !== Object.prototype;
    each = Object.getPrototypeOf(each)
  )
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(each)))
      if (typeof value === 'function' && name !== 'constructor' && !name.startsWith('_')) names.add(name)
  return [...names]
}
