//! The functions that a script has besides the language: `tools`, `text`, `image`, `console`, `store`,
//! `load`, timers, `notify`, `yield_control`, `exit`.
//!
//! All of it is native and holds its state outside the script's reach, so that a script that changes
//! prototypes or globals harms only itself.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::function::{Opt, Rest};
use rquickjs::prelude::Func;
use rquickjs::runtime::RejectionTracker;
use rquickjs::{Array, Ctx, Exception, Function, Object, Persistent, Promise, Result, Value};

use super::show;
use super::state::{MAX_TIMERS, State};
use patchwright_guest::script::lines::{Callable, FromScript, MAX_VALUE};

/// Longest wait of a timer.
const MAX_DELAY_MS: f64 = 3_600_000.0;

/// Most promises whose rejection is remembered.
const MAX_REJECTED: usize = 100;

/// Defines everything.
pub(super) fn install<'js>(
    ctx: &Ctx<'js>,
    state: &Rc<State>,
    callables: &[Callable],
) -> Result<()> {
    let globals = ctx.globals();
    globals.set("tools", tools(ctx, state, callables)?)?;
    globals.set("ALL_TOOLS", listing(ctx, callables)?)?;
    output(ctx, state)?;
    storage(ctx, state)?;
    timers(ctx, state)?;
    let it = Rc::clone(state);
    let stop = move |ctx: Ctx<'js>| -> Result<()> {
        it.exited.set(true);
        Err(Exception::throw_message(&ctx, "the script has ended itself"))
    };
    globals.set("exit", Func::from(stop))
}

/// One function a tool, under its name and, where that is no identifier, under one that is.
fn tools<'js>(ctx: &Ctx<'js>, state: &Rc<State>, callables: &[Callable]) -> Result<Object<'js>> {
    let tools = Object::new(ctx.clone())?;
    tools.set_prototype(None)?;
    for callable in callables {
        let (it, name) = (Rc::clone(state), callable.name.clone());
        let call = move |ctx: Ctx<'js>, args: Opt<Value<'js>>| call(&ctx, &it, &name, args.0);
        let function = Function::new(ctx.clone(), call)?.with_name(&callable.name)?;
        let identifier = identifier(&callable.name);
        if identifier != callable.name && !tools.contains_key(identifier.as_str())? {
            tools.set(identifier, function.clone())?;
        }
        tools.set(callable.name.as_str(), function)?;
    }
    Ok(tools)
}

fn identifier(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    name.chars().map(fit).collect()
}

fn listing<'js>(ctx: &Ctx<'js>, callables: &[Callable]) -> Result<Value<'js>> {
    ctx.json_parse(serde_json::to_string(callables).unwrap_or_default())
}

/// Sends a call and gives a promise of its result.
fn call<'js>(
    ctx: &Ctx<'js>,
    state: &Rc<State>,
    name: &str,
    args: Option<Value<'js>>,
) -> Result<Promise<'js>> {
    let (promise, resolve, reject) = ctx.promise()?;
    let refuse = |reason: &str| -> Result<()> {
        let error = Exception::from_message(ctx.clone(), reason)?;
        reject.call::<_, ()>((error,))
    };
    if state.exited.get() {
        return Ok(promise);
    }
    let json = match args.filter(|args| !args.is_undefined() && !args.is_null()) {
        None => Some("{}".to_owned()),
        Some(args) => match ctx.json_stringify(args) {
            Ok(json) => json.map(|json| json.to_string()).transpose()?,
            Err(err) => {
                refuse(&show::failure(ctx, err))?;
                return Ok(promise);
            }
        },
    };
    let args = json.as_deref().filter(|json| json.len() <= MAX_VALUE);
    let Some(args) = args.and_then(|json| serde_json::from_str(json).ok()) else {
        let size = json.map_or(0, |json| json.len());
        refuse(&format!(
            "the arguments of `{name}` are no JSON value of at most {MAX_VALUE} bytes ({size} bytes)"
        ))?;
        return Ok(promise);
    };
    if !state.may_call() {
        refuse(&format!("a script can make {} calls", state.limits.calls))?;
        return Ok(promise);
    }
    let id = state.id();
    let settle = (Persistent::save(ctx, resolve), Persistent::save(ctx, reject));
    state.waiting.borrow_mut().insert(id, settle);
    state.send(&FromScript::Call { id, name: name.to_owned(), args });
    Ok(promise)
}

fn output<'js>(ctx: &Ctx<'js>, state: &Rc<State>) -> Result<()> {
    let globals = ctx.globals();
    for name in ["text", "notify"] {
        let it = Rc::clone(state);
        let show = move |ctx: Ctx<'js>, value: Opt<Value<'js>>| {
            let value = value.0.unwrap_or_else(|| Value::new_undefined(ctx.clone()));
            it.show(&show::value(&ctx, &value));
        };
        globals.set(name, Func::from(show))?;
    }
    let console = Object::new(ctx.clone())?;
    for name in ["log", "info", "warn", "error", "debug"] {
        let it = Rc::clone(state);
        let log = move |ctx: Ctx<'js>, values: Rest<Value<'js>>| {
            let texts: Vec<String> = values.0.iter().map(|it| show::value(&ctx, it)).collect();
            it.show(&texts.join(" "));
        };
        console.set(name, Func::from(log))?;
    }
    globals.set("console", console)?;
    for name in ["image", "generatedImage"] {
        let it = Rc::clone(state);
        let show = move |ctx: Ctx<'js>, value: Value<'js>| image(&ctx, &it, &value);
        globals.set(name, Func::from(show))?;
    }
    let it = Rc::clone(state);
    let give_way = move |ctx: Ctx<'js>| -> Result<Promise<'js>> {
        it.send(&FromScript::Yield);
        let (promise, resolve, _) = ctx.promise()?;
        resolve.call::<_, ()>(())?;
        Ok(promise)
    };
    globals.set("yield_control", Func::from(give_way))
}

/// Shows a picture: a data URL, the result of a tool that has pictures, or an MCP picture.
fn image<'js>(ctx: &Ctx<'js>, state: &State, value: &Value<'js>) -> Result<()> {
    let mut urls = Vec::new();
    if let Some(url) = value.as_string() {
        urls.push(url.to_string()?);
    } else if let Some(object) = value.as_object() {
        let text = |name: &str| object.get::<_, Option<String>>(name).ok().flatten();
        let media_type = text("mimeType").or_else(|| text("media_type"));
        if let Some(url) = text("image_url") {
            urls.push(url);
        } else if let (Some(data), Some(media_type)) = (text("data"), media_type) {
            urls.push(format!("data:{media_type};base64,{data}"));
        }
        let more = object.get::<_, Option<Array<'js>>>("more_images").ok().flatten();
        urls.extend(more.iter().flat_map(rquickjs::Array::iter::<String>).filter_map(Result::ok));
    }
    // Reading a property of a hostile object may have thrown.
    ctx.catch();
    if urls.is_empty() {
        let message = "image() takes a data URL or a result that has a picture";
        return Err(Exception::throw_type(ctx, message));
    }
    for url in urls {
        let shown = url.trim().chars().take(80).collect::<String>();
        if !url.starts_with("data:image/") {
            let message = format!("image() takes a data URL (data:image/…), not `{shown}`");
            return Err(Exception::throw_type(ctx, &message));
        }
        if !state.show_image(url) {
            let message = format!("a script can show {} pictures", state.limits.images);
            return Err(Exception::throw_range(ctx, &message));
        }
    }
    Ok(())
}

fn storage<'js>(ctx: &Ctx<'js>, state: &Rc<State>) -> Result<()> {
    let globals = ctx.globals();
    let it = Rc::clone(state);
    let store = move |ctx: Ctx<'js>, key: String, value: Value<'js>| -> Result<()> {
        let Some(json) = ctx.json_stringify(value)? else {
            return Err(Exception::throw_type(&ctx, "store() takes values that JSON can hold"));
        };
        let json = json.to_string()?;
        if json.len() + key.len() > MAX_VALUE {
            let message = format!("a stored value can have {MAX_VALUE} bytes");
            return Err(Exception::throw_range(&ctx, &message));
        }
        it.send(&FromScript::Store { key: key.clone(), value: json.clone() });
        it.stored.borrow_mut().insert(key, json);
        Ok(())
    };
    globals.set("store", Func::from(store))?;
    let it = Rc::clone(state);
    let load = move |ctx: Ctx<'js>, key: String| -> Result<Value<'js>> {
        let json = it.stored.borrow().get(&key).cloned();
        match json {
            Some(json) => ctx.json_parse(json),
            None => Ok(Value::new_undefined(ctx)),
        }
    };
    globals.set("load", Func::from(load))
}

fn timers<'js>(ctx: &Ctx<'js>, state: &Rc<State>) -> Result<()> {
    let globals = ctx.globals();
    let it = Rc::clone(state);
    let set = move |ctx: Ctx<'js>, then: Function<'js>, delay: Opt<f64>| -> Result<f64> {
        let delay = delay.0.filter(|delay| *delay > 0.0).unwrap_or(0.0).min(MAX_DELAY_MS);
        let mut timers = it.timers.borrow_mut();
        if timers.len() >= MAX_TIMERS {
            return Err(Exception::throw_range(&ctx, "too many timers at the same time"));
        }
        let id = it.id();
        let due = Instant::now() + Duration::from_secs_f64(delay / 1000.0);
        timers.insert((due, id), Persistent::save(&ctx, then));
        #[expect(clippy::cast_precision_loss, reason = "ids stay far below 2^52")]
        let id = id as f64;
        Ok(id)
    };
    globals.set("setTimeout", Func::from(set))?;
    let it = Rc::clone(state);
    let clear = move |id: Opt<Value<'js>>| {
        let Some(id) = id.0.and_then(|id| id.as_number()) else { return };
        #[expect(
            clippy::cast_precision_loss,
            clippy::float_cmp,
            reason = "ids are whole numbers far below 2^52"
        )]
        it.timers.borrow_mut().retain(|(_, timer), _| *timer as f64 != id);
    };
    globals.set("clearTimeout", Func::from(clear))
}

/// Remembers promises that are rejected and have no handler, until they get one.
pub(super) fn rejections(state: &Rc<State>) -> RejectionTracker {
    let state = Rc::clone(state);
    Box::new(move |ctx, promise, reason, is_handled| {
        let mut hasher = DefaultHasher::new();
        promise.hash(&mut hasher);
        let identity = hasher.finish();
        let mut rejected = state.rejected.borrow_mut();
        if is_handled {
            rejected.retain(|(other, _)| *other != identity);
        } else if rejected.len() < MAX_REJECTED {
            rejected.push((identity, show::thrown(&ctx, &reason)));
        }
    })
}
