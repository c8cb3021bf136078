//! The few functions of libibverbs that a list of devices takes.
//!
//! The types come from the `ibverbs` crate and its bindings; the functions are looked up when the
//! program runs, so that it starts where libibverbs is not installed. Calling one of the crates'
//! own functions anywhere would make the library a load-time dependency again.
use std::ffi::{c_char, c_int, c_void, CStr};
use std::io;
use std::ptr::NonNull;

use ibverbs::{Gid, Guid};
use ibverbs_sys::{ibv_context, ibv_device, ibv_device_attr, ibv_gid, ibv_port_attr};

const LIBRARY: &CStr = c"libibverbs.so.1";

/// Why there is no list of devices.
#[derive(Debug, thiserror::Error)]
pub(super) enum VerbsError {
    #[error("libibverbs.so.1 is not installed")]
    NoLibrary,
    #[error("libibverbs.so.1 has no function {}", .0.to_string_lossy())]
    NoFunction(&'static CStr),
    #[error("{0}")]
    List(io::Error),
}

/// Declares the functions, each with its name in the library, and looks them up.
macro_rules! functions {
    ($($field:ident: $name:literal = $kind:ty,)*) => {
        /// libibverbs, which is never unloaded.
        #[derive(Debug)]
        pub(super) struct Verbs {
            $($field: $kind,)*
        }

        impl Verbs {
            pub(super) fn load() -> Result<Self, VerbsError> {
                let library = open()?;
                Ok(Self {
                    $($field: {
                        let address = look_up(library, $name)?.as_ptr();
                        // SAFETY: verbs.h fixes the type of the function of this name for
                        // libibverbs.so.1, and a function pointer is as wide as `address`.
                        unsafe { std::mem::transmute::<*mut c_void, $kind>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    get_device_list: c"ibv_get_device_list" =
        unsafe extern "C" fn(*mut c_int) -> *mut *mut ibv_device,
    free_device_list: c"ibv_free_device_list" = unsafe extern "C" fn(*mut *mut ibv_device),
    get_device_name: c"ibv_get_device_name" =
        unsafe extern "C" fn(*mut ibv_device) -> *const c_char,
    get_device_guid: c"ibv_get_device_guid" = unsafe extern "C" fn(*mut ibv_device) -> u64,
    open_device: c"ibv_open_device" = unsafe extern "C" fn(*mut ibv_device) -> *mut ibv_context,
    close_device: c"ibv_close_device" = unsafe extern "C" fn(*mut ibv_context) -> c_int,
    query_device: c"ibv_query_device" =
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int,
    query_port: c"ibv_query_port" =
        unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int,
    query_gid: c"ibv_query_gid" =
        unsafe extern "C" fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int,
}

fn open() -> Result<NonNull<c_void>, VerbsError> {
    // SAFETY: the name is a C string; the initialisers of libibverbs need nothing of us.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    NonNull::new(library).ok_or(VerbsError::NoLibrary)
}

fn look_up(library: NonNull<c_void>, name: &'static CStr) -> Result<NonNull<c_void>, VerbsError> {
    // SAFETY: the handle is open, for it is never closed, and the name is a C string.
    let address = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) };
    NonNull::new(address).ok_or(VerbsError::NoFunction(name))
}

impl Verbs {
    pub(super) fn devices(&self) -> Result<DeviceList<'_>, VerbsError> {
        let mut count = 0;
        // SAFETY: `count` is a place for an int.
        let list = unsafe { (self.get_device_list)(&raw mut count) };
        if list.is_null() {
            let error = io::Error::last_os_error();
            // The kernel module is not loaded: nothing is wrong, there is just nothing.
            if error.raw_os_error() != Some(libc::ENOSYS) {
                return Err(VerbsError::List(error));
            }
            count = 0;
        }
        Ok(DeviceList { verbs: self, list, count: usize::try_from(count).unwrap_or(0) })
    }
}

/// The devices of this moment. `list` is null or has `count` entries, valid until it is freed.
pub(super) struct DeviceList<'v> {
    verbs: &'v Verbs,
    list: *mut *mut ibv_device,
    count: usize,
}

impl DeviceList<'_> {
    pub(super) fn iter(&self) -> impl Iterator<Item = DeviceRef<'_>> {
        (0..self.count).filter_map(|index| {
            // SAFETY: the list has `count` entries.
            let device = NonNull::new(unsafe { *self.list.add(index) })?;
            Some(DeviceRef { verbs: self.verbs, device })
        })
    }
}

impl Drop for DeviceList<'_> {
    fn drop(&mut self) {
        if !self.list.is_null() {
            // SAFETY: it came from get_device_list and is freed once; no DeviceRef outlives it.
            unsafe { (self.verbs.free_device_list)(self.list) };
        }
    }
}

/// An entry of a list, which it borrows.
pub(super) struct DeviceRef<'l> {
    verbs: &'l Verbs,
    device: NonNull<ibv_device>,
}

impl DeviceRef<'_> {
    pub(super) fn name(&self) -> String {
        // SAFETY: the device is in a list that lives.
        let name = unsafe { (self.verbs.get_device_name)(self.device.as_ptr()) };
        if name.is_null() {
            return String::new();
        }
        // SAFETY: a name is a C string that lives as long as the device.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// `IBV_NODE_…`, of any value a newer library may give.
    pub(super) fn node_type(&self) -> i32 {
        // SAFETY: the device is in a list that lives. The field is read as an int: the enum of
        // the bindings has no room for values that this version does not know.
        unsafe { (&raw const (*self.device.as_ptr()).node_type).cast::<i32>().read() }
    }

    pub(super) fn guid(&self) -> Guid {
        // SAFETY: the device is in a list that lives.
        let guid = unsafe { (self.verbs.get_device_guid)(self.device.as_ptr()) };
        Guid::from(u64::from_be(guid))
    }

    pub(super) fn open(&self) -> Option<Context<'_>> {
        // SAFETY: the device is in a list that lives.
        let context = unsafe { (self.verbs.open_device)(self.device.as_ptr()) };
        Some(Context { verbs: self.verbs, context: NonNull::new(context)? })
    }
}

/// An open device.
pub(super) struct Context<'l> {
    verbs: &'l Verbs,
    context: NonNull<ibv_context>,
}

impl Context<'_> {
    pub(super) fn port_count(&self) -> u8 {
        let mut attributes = ibv_device_attr::default();
        // SAFETY: the device is open, `attributes` is a place of the type asked for.
        let result =
            unsafe { (self.verbs.query_device)(self.context.as_ptr(), &raw mut attributes) };
        if result == 0 {
            attributes.phys_port_cnt
        } else {
            0
        }
    }

    /// `IBV_PORT_…`.
    pub(super) fn port_state(&self, port: u8) -> Option<u32> {
        let mut attributes = ibv_port_attr::default();
        // SAFETY: the device is open; the library fills at most an `ibv_port_attr`.
        let result =
            unsafe { (self.verbs.query_port)(self.context.as_ptr(), port, &raw mut attributes) };
        (result == 0).then_some(attributes.state)
    }

    /// The first entry of the port's address table.
    pub(super) fn gid(&self, port: u8) -> Option<Gid> {
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: the device is open, `gid` is a place of the type asked for.
        let result =
            unsafe { (self.verbs.query_gid)(self.context.as_ptr(), port, 0, &raw mut gid) };
        (result == 0).then(|| Gid::from(gid))
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: it is open and closed once. A failure leaves nothing to do.
        let _ = unsafe { (self.verbs.close_device)(self.context.as_ptr()) };
    }
}
